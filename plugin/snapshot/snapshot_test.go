package snapshot

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

var sample = Header{
	Fingerprint: Fingerprint{
		Cluster: "1f0b2c", Zones: []string{"clusterset.local.", "example."}, Namespaces: []string{"orchard"}, PodNames: true,
	},
	Taken:  time.Unix(1_800_000_000, 123),
	Serial: 4_000_000_000,
}

// inputs has headless services with 20 endpoints each, half of them with host
// names, and as many imports.
func inputs(services int) *Inputs {
	in := &Inputs{}
	for i := range services {
		key := mcs.ServiceKey{Namespace: fmt.Sprint("orchard-", i%50), Name: fmt.Sprint("service-", i)}
		imp := zone.Import{Key: key, Headless: i%2 == 0}
		if !imp.Headless {
			imp.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), netip.MustParseAddr("fd00:96::10")}
			imp.Ports = []zone.Port{{Name: "http", Protocol: "tcp", Number: 80}, {Protocol: "udp", Number: 53}}
		}
		in.Imports = append(in.Imports, imp)
		sl := zone.Slice{
			Name: fmt.Sprint("service-", i, "-0123456789ab"), Service: key, Cluster: "basil.west",
			Ports: []zone.Port{{Name: "http", Protocol: "tcp", Number: 80}},
		}
		for e := range 20 {
			host := ""
			if e%2 == 0 {
				host = fmt.Sprint("pod-", e)
			}
			sl.Endpoints = append(sl.Endpoints, zone.Endpoint{Address: netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), byte(e + 1)}), Host: host})
		}
		in.Slices = append(in.Slices, sl)
	}
	return in
}

var comparers = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) }),
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		h  Header
		in *Inputs
	}{
		"services":              {sample, inputs(3)},
		"nothing":               {Header{Taken: time.Unix(0, 0)}, &Inputs{}},
		"a time before 1970":    {Header{Taken: time.Unix(-5, 0)}, &Inputs{}},
		"an import without all": {sample, &Inputs{Imports: []zone.Import{{}}, Slices: []zone.Slice{{}}}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "snapshot")
			if err := NewFile(path).Write(Encode(&c.h, c.in)); err != nil {
				t.Fatal(err)
			}
			s, err := Read(path)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Inputs()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.h, s.Header, comparers); diff != "" {
				t.Errorf("header differs (-written +read):\n%s", diff)
			}
			if diff := cmp.Diff(c.in, got, comparers); diff != "" {
				t.Errorf("inputs differ (-written +read):\n%s", diff)
			}
		})
	}
}

func TestEveryFlippedByteIsFound(t *testing.T) {
	whole := Encode(&sample, inputs(2))
	for i := range whole {
		b := append([]byte(nil), whole...)
		b[i] ^= 0x20
		if _, err := Decode(b); !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d of %d flipped: %v, want ErrDamaged", i, len(whole), err)
		}
	}
}

func TestEveryEarlyEndIsFound(t *testing.T) {
	whole := Encode(&sample, inputs(2))
	for i := range whole {
		if _, err := Decode(whole[:i]); !errors.Is(err, ErrTruncated) {
			t.Fatalf("%d bytes of %d: %v, want ErrTruncated", i, len(whole), err)
		}
	}
	if _, err := Decode(append(whole, 0)); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte after the end: %v, want ErrDamaged", err)
	}
}

func TestAnotherVersionIsNamed(t *testing.T) {
	b := Encode(&sample, inputs(1))
	binary.BigEndian.PutUint32(b[len(magic):], 7)
	binary.BigEndian.PutUint32(b[headSize-4:], crc32.Checksum(b[:headSize-4], castagnoli))
	_, err := Decode(b)
	if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "its format is 7, and this one reads 1") {
		t.Errorf("Decode: %v, want ErrVersion with both versions", err)
	}
}

func TestReadTellsWhatTheFileIs(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v, want fs.ErrNotExist", err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("kind: Config\n", 10)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(text); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), text) {
		t.Errorf("another kind of file: %v, want ErrDamaged and its path", err)
	}
}

func TestDifferenceSaysWhatDiffers(t *testing.T) {
	f := sample.Fingerprint
	for name, c := range map[string]struct {
		change func(*Fingerprint)
		want   string
	}{
		"nothing":              {func(*Fingerprint) {}, ""},
		"cluster":              {func(f *Fingerprint) { f.Cluster = "99" }, "cluster: namespace kube-system had the UID 1f0b2c and has 99"},
		"cluster is not known": {func(f *Fingerprint) { f.Cluster = "" }, ""},
		"zones":                {func(f *Fingerprint) { f.Zones = []string{"example."} }, `zones: were ["clusterset.local." "example."] and are ["example."]`},
		"namespaces":           {func(f *Fingerprint) { f.Namespaces = nil }, `option namespaces: was ["orchard"] and is []`},
		"pod names":            {func(f *Fingerprint) { f.PodNames = false }, "option endpoint_pod_names: was true and is false"},
		"two things":           {func(f *Fingerprint) { f.Cluster, f.PodNames = "99", false }, "has 99; option endpoint_pod_names"},
	} {
		t.Run(name, func(t *testing.T) {
			want := f
			c.change(&want)
			if got := f.Difference(want); !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
				t.Errorf("Difference = %q, want %q", got, c.want)
			}
		})
	}
}

func TestTheFileIsReplacedWholeAndForItsOwnerOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "snapshot")
	file := NewFile(path)
	if file.Ours() {
		t.Error("a file that is not there is ours")
	}
	old := filepath.Join(dir, ".snapshot.tmp-1")
	fresh := filepath.Join(dir, ".snapshot.tmp-2")
	for _, left := range []string{old, fresh} {
		if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-2 * abandoned)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := file.Write(Encode(&sample, inputs(1))); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("mode is %v, want 0600", info.Mode())
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil || len(left) != 1 || left[0] != fresh {
		t.Errorf("temporary files: %q (%v), want only the one that another writer may still write", left, err)
	}
	if !file.Ours() {
		t.Error("the file that was just written is not ours")
	}
	if err := NewFile(path).Write(Encode(&sample, inputs(1))); err != nil {
		t.Fatal(err)
	}
	if file.Ours() {
		t.Error("a file that another writer has replaced is ours")
	}
}

func TestAFailedWriteLeavesTheOldFileAndNoOther(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "snapshot")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil { // no file can take its place
		t.Fatal(err)
	}
	if err := NewFile(path).Write([]byte("x")); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Write: %v, want an error with the path", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("the folder has %v (%v), want one entry", left, err)
	}
	if err := NewFile(filepath.Join(dir, "none", "snapshot")).Write([]byte("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Write into a folder that is not there: %v", err)
	}
}

// writeForever makes this test program a writer that is killed.
var writeForever = flag.String("write-forever", "", "path to write snapshots to until the end")

func TestMain(m *testing.M) {
	flag.Parse()
	if *writeForever != "" {
		file, h := NewFile(*writeForever), sample
		for in := inputs(500); ; h.Serial++ {
			if err := file.Write(Encode(&h, in)); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
	}
	os.Exit(m.Run())
}

func TestAWriterThatIsKilledLeavesAWholeFile(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "snapshot")
	for i := range 10 {
		cmd := exec.CommandContext(t.Context(), self, "-write-forever", path)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		written := func() bool { _, err := os.Stat(path); return err == nil }
		for deadline := time.Now().Add(20 * time.Second); !written() && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(3*i) * time.Millisecond) // somewhere in a write
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		s, err := Read(path)
		if err != nil {
			t.Fatalf("after a kill: %v", err)
		}
		if in, err := s.Inputs(); err != nil || len(in.Imports) != 500 {
			t.Fatalf("after a kill: %d imports (%v)", len(in.Imports), err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzDecode feeds bodies with right checksums, so that what is behind them is
// reached, and the bytes as they are.
func FuzzDecode(f *testing.F) {
	for _, in := range []*Inputs{{}, inputs(1), inputs(3)} {
		whole := Encode(&sample, in)
		f.Add(whole[headSize : len(whole)-checkSize])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := Decode(body); err == nil {
			t.Log("the fuzzer found a SHA-256")
		}
		s, err := Decode(seal(append(make([]byte, headSize), body...)))
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("Decode of a sealed body: %v", err)
			}
			return
		}
		in, err := s.Inputs()
		if err != nil {
			return
		}
		room := 0
		for _, sl := range in.Slices {
			room += cap(sl.Endpoints)*40 + cap(sl.Ports)*40 + 150
		}
		if room > 60*len(body)+1000 {
			t.Errorf("%d bytes became %d", len(body), room)
		}
		again, err := Decode(Encode(&s.Header, in))
		if err != nil {
			t.Fatalf("Decode of what was encoded: %v", err)
		}
		got, err := again.Inputs()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s.Header, again.Header, comparers) + cmp.Diff(in, got, comparers); diff != "" {
			t.Errorf("decode(encode(x)) differs from x:\n%s", diff)
		}
		b := zone.NewBuilder(zone.Options{Origins: []string{"clusterset.local."}})
		b.Resume(s.Serial)
		b.ReplaceImports("", in.Imports)
		b.ReplaceSlices("", in.Slices)
		b.Publish(1)
	})
}

// 5,000 imports and 100,000 endpoints.
func BenchmarkEncode(b *testing.B) {
	in := inputs(5000)
	b.ReportAllocs()
	for b.Loop() {
		b.SetBytes(int64(len(Encode(&sample, in))))
	}
}

func BenchmarkReadAndBuild(b *testing.B) {
	whole := Encode(&sample, inputs(5000))
	b.SetBytes(int64(len(whole)))
	b.ReportAllocs()
	for b.Loop() {
		s, err := Decode(whole)
		if err != nil {
			b.Fatal(err)
		}
		in, err := s.Inputs()
		if err != nil {
			b.Fatal(err)
		}
		z := zone.NewBuilder(zone.Options{Origins: []string{"clusterset.local."}})
		z.ReplaceImports("", in.Imports)
		z.ReplaceSlices("", in.Slices)
		z.Publish(1)
	}
}

func BenchmarkDecode(b *testing.B) {
	whole := Encode(&sample, inputs(5000))
	b.SetBytes(int64(len(whole)))
	b.ReportAllocs()
	for b.Loop() {
		s, err := Decode(whole)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Inputs(); err != nil {
			b.Fatal(err)
		}
	}
}
