package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Read reads a snapshot. Beside the errors of [Decode] there are those of the
// file: fs.ErrNotExist when there is none.
func Read(path string) (*Snapshot, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: it is not a regular file", path)
	}
	b, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	s, err := Decode(b)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return s, nil
}

// File is where one process writes its snapshots. It is not safe for
// concurrent use.
type File struct {
	path    string
	written os.FileInfo // what the last Write left; nil before the first
}

// NewFile does nothing to the file yet.
func NewFile(path string) *File { return &File{path: path} }

// abandoned is the age of a temporary file whose writer was killed.
const abandoned = time.Hour

// Write replaces the file by an encoded snapshot: a reader finds the old one or
// the new one whole, also after a crash or a loss of power.
func (f *File) Write(encoded []byte) error {
	folder, name := filepath.Split(f.path)
	if folder == "" {
		folder = "."
	}
	pattern := "." + name + ".tmp-*"
	if f.written == nil {
		sweep(filepath.Join(folder, pattern))
	}
	tmp, err := os.CreateTemp(folder, pattern) // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	info, err := fill(tmp, encoded)
	if err == nil {
		err = os.Rename(tmp.Name(), f.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", f.path, err), os.Remove(tmp.Name()))
	}
	f.written = info
	if err := syncFolder(folder); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
}

// fill writes a file down to the disk, and closes it.
func fill(tmp *os.File, content []byte) (os.FileInfo, error) {
	_, err := tmp.Write(content)
	if err == nil {
		err = tmp.Sync()
	}
	info, statErr := tmp.Stat()
	return info, errors.Join(err, statErr, tmp.Close())
}

// Ours reports whether the file is the one that the last Write left. It is not
// when somebody else writes it, such as the next configuration after a reload.
func (f *File) Ours() bool {
	info, err := os.Stat(f.path)
	return err == nil && f.written != nil && os.SameFile(info, f.written)
}

// sweep removes what killed writers left; what cannot be removed does no harm.
func sweep(pattern string) {
	left, _ := filepath.Glob(pattern)
	for _, path := range left {
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.Remove(path)
		}
	}
}

// syncFolder makes a rename outlive a loss of power.
func syncFolder(folder string) error {
	d, err := os.Open(folder) //nolint:gosec // the operator names the file
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
