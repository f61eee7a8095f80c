package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// fileLock is a lock between processes. The kernel drops it when its holder
// dies, in whichever way.
type fileLock struct{ file *os.File }

// errLocked says that another process, or another holder in this one, has it.
var errLocked = errors.New("locked by another")

// tryLock takes the lock at once or returns an error that is errLocked. The
// file is made if it is not there, and stays.
func tryLock(path string) (*fileLock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // a path of our own
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, errLocked)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &fileLock{file}, nil
}

// waitLock takes the lock as soon as it is free. It calls waiting once if it
// is not free at first.
func waitLock(ctx context.Context, path string, waiting func()) (*fileLock, error) {
	for told := false; ; told = true {
		lock, err := tryLock(path)
		if !errors.Is(err, errLocked) {
			return lock, err
		}
		if !told && waiting != nil {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for lock %s: %w", path, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (l *fileLock) unlock() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
