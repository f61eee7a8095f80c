package main

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// startEtcd runs a one-member etcd on loopback ports that the kernel chooses
// and returns when it can be written to. The data in dir survives the death of
// the process, though not of the machine: every write reaches the page cache
// before it is acknowledged, and nothing is synced to the disk.
func startEtcd(dir string) (server *embed.Etcd, endpoint string, err error) {
	// The write-ahead log is allocated a segment ahead; 64 MB per cluster
	// would be most of what a test run puts on the disk.
	wal.SegmentSizeBytes = 8 << 20

	loopback := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.LogLevel = "error"
	cfg.UnsafeNoFsync = true
	// A member alone waits one election time-out before it serves.
	cfg.TickMs, cfg.ElectionMs = 20, 200
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = loopback, loopback
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = loopback, loopback
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)

	server, err = embed.StartEtcd(cfg)
	if err != nil {
		return nil, "", fmt.Errorf("start etcd in %s: %w", dir, err)
	}
	select {
	case <-server.Server.ReadyNotify():
		return server, "http://" + server.Clients[0].Addr().String(), nil
	case err := <-server.Err():
		return nil, "", fmt.Errorf("start etcd in %s: %w", dir, err)
	case <-time.After(time.Minute):
		server.Server.HardStop()
		return nil, "", errors.New("start etcd: not ready after a minute")
	}
}
