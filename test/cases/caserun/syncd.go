package caserun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// syncdProcess is syncd in one cluster, the newest one of the case.
type syncdProcess struct {
	*kubetest.Process
	cluster string
	argv    []string
	url     string
	stopped bool   // by the case
	earlier string // the logs of those before
}

// options are the flags that syncd has for what cases ask for by meaning.
var options = map[string][]string{
	"lease_seconds":     {"stale-after"},
	"resync_seconds":    {"resync", "resync-period"},
	"denied_namespaces": {"denied-namespaces", "deny-namespaces", "denied-namespace"},
}

var flagLine = regexp.MustCompile(`(?m)^\s+-(\S+)`)

// syncdFlags are the arguments for the options of the case. An option that
// syncd does not have skips the case.
func (w *world) syncdFlags(ctx context.Context, binary string) ([]string, error) {
	usage, _ := exec.CommandContext(ctx, binary, "-h").CombinedOutput() // it exits with an error code
	var has []string
	for _, match := range flagLine.FindAllStringSubmatch(string(usage), -1) {
		has = append(has, match[1])
	}
	if len(has) == 0 {
		return nil, fmt.Errorf("read flags of syncd: there are none in:\n%s", usage)
	}
	var flags []string
	add := func(option, value string) error {
		for _, flag := range options[option] {
			if slices.Contains(has, flag) {
				flags = append(flags, "--"+flag+"="+value)
				return nil
			}
		}
		return skipf("syncd has no option for %s yet", option)
	}
	config := w.c.Config.Syncd
	// A syncd without leases never lets a peer go: as good as one that cannot run out.
	if lease := config.LeaseSeconds; lease > 0 {
		if err := add("lease_seconds", strconv.Itoa(lease)+"s"); err != nil && w.c.longestCut() >= float64(lease) {
			return nil, err
		}
	}
	if config.ResyncSeconds > 0 {
		if err := add("resync_seconds", strconv.Itoa(config.ResyncSeconds)+"s"); err != nil {
			return nil, err
		}
	}
	if len(config.DeniedNamespaces) > 0 {
		if err := add("denied_namespaces", strings.Join(config.DeniedNamespaces, ",")); err != nil {
			return nil, err
		}
	}
	return flags, nil
}

// longestCut is for how many seconds a peer is out of reach at a time, as far
// as the case waits for it.
func (c *Case) longestCut() float64 {
	longest, since, away := 0.0, 0.0, false
	for _, e := range c.Events {
		switch {
		case e.Do == "network" || e.Do == "api" && e.Set != "":
			away = e.Set != "restored" && e.Set != "reachable"
			since = 0
		case e.Do == "wait" && away:
			since += e.Seconds
			longest = max(longest, since)
		}
	}
	return longest
}

// startSyncds gives every cluster its peers and a syncd.
func (w *world) startSyncds(ctx context.Context) error {
	binary, err := w.bed.Build(ctx, "./cmd/syncd")
	if err != nil {
		return err
	}
	flags, err := w.syncdFlags(ctx, binary)
	if err != nil {
		return err
	}
	ids := w.c.clusterIDs()
	for _, id := range ids {
		for _, peer := range ids {
			if peer == id {
				continue
			}
			if err := w.addPeer(ctx, id, peer); err != nil {
				return err
			}
		}
		way, kubeconfig, err := w.route(id, id, syncdUser)
		if err != nil {
			return err
		}
		w.block(way)
		file, err := w.writeFile("syncd-"+id+".kubeconfig", kubeconfig)
		if err != nil {
			return err
		}
		argv := append([]string{binary, "--cluster-id", id, "--kubeconfig", file, "--listen", "127.0.0.1:0"}, flags...)
		s := &syncdProcess{cluster: id, argv: argv}
		w.syncds[id] = s
		if err := w.startSyncd(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) addPeer(ctx context.Context, cluster, peer string) error {
	_, kubeconfig, err := w.route(cluster, peer, peerUser)
	if err != nil {
		return err
	}
	target, err := w.member(peer)
	if err != nil {
		return err
	}
	if w.c.needsTokens() {
		if kubeconfig, err = w.issue(ctx, target, kubeconfig, cluster, peer); err != nil {
			return err
		}
	}
	if other, ok := w.c.Config.Syncd.Peers[peer]; ok {
		kubeconfig = []byte(other.Kubeconfig)
	}
	m, err := w.member(cluster)
	if err != nil {
		return err
	}
	return m.peerSecret(ctx, "peer-"+peer, peer, kubeconfig)
}

func (m *member) peerSecret(ctx context.Context, name, peer string, kubeconfig []byte) error {
	secrets := m.kube.CoreV1().Secrets(homeNamespace)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{mcs.LabelPeer: peer}},
		Data:       map[string][]byte{mcs.SecretKeyKubeconfig: kubeconfig},
	}
	_, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write peer Secret %s: %w", name, err)
	}
	return nil
}

// startSyncd starts a syncd, again after it was stopped.
func (w *world) startSyncd(ctx context.Context, s *syncdProcess) error {
	if s.Process != nil {
		s.earlier += s.Log()
	}
	var err error
	if s.Process, err = w.bed.Run(ctx, "syncd in "+s.cluster+" of "+w.c.ID, s.argv); err != nil {
		return err
	}
	s.stopped = false
	s.url, err = waitSyncd(ctx, s.Process)
	return err
}

// waitSyncd waits until a syncd listens and returns the URL of its pages.
func waitSyncd(ctx context.Context, p *kubetest.Process) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	line, err := p.WaitLog(ctx, `"msg":"listening"`)
	if err != nil {
		return "", err
	}
	var entry struct{ Addr string }
	if err := json.Unmarshal([]byte(line), &entry); err != nil {
		return "", fmt.Errorf("read log line %s: %w", line, err)
	}
	return "http://" + entry.Addr, nil
}

func (w *world) stopSyncd(ctx context.Context, s *syncdProcess) error {
	s.stopped = true
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		return errors.Join(err, s.Kill())
	}
	return nil
}

// syncdVariant starts syncd with one configuration and looks how that ends.
func (w *world) syncdVariant(ctx context.Context, number int, v Variant) error {
	binary, err := w.bed.Build(ctx, "./cmd/syncd")
	if err != nil {
		return err
	}
	m, err := w.member(home)
	if err != nil {
		return err
	}
	if err := m.cleanKind(ctx, "Secret"); err != nil {
		return fmt.Errorf("remove peers: %w", err)
	}
	for i, peer := range v.Peers {
		_, kubeconfig, err := w.route(home, home, peerUser)
		if err != nil {
			return err
		}
		if i > 0 { // so that one is the younger
			if err := sleep(ctx, 1100*time.Millisecond); err != nil {
				return err
			}
		}
		if err := m.peerSecret(ctx, fmt.Sprintf("peer-%d", i), peer, kubeconfig); err != nil {
			return err
		}
	}
	_, kubeconfig, err := w.route(home, home, syncdUser)
	if err != nil {
		return err
	}
	file, err := w.writeFile(fmt.Sprintf("syncd-variant-%d.kubeconfig", number), kubeconfig)
	if err != nil {
		return err
	}
	id := v.ClusterID
	if id == "" {
		id = home
	}
	p, err := w.bed.Run(ctx, fmt.Sprintf("syncd variant %d of %s", number, w.c.ID),
		[]string{binary, "--cluster-id", id, "--kubeconfig", file, "--listen", "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer func() { _ = p.Kill() }() // it has shown what it does
	_, started := waitSyncd(ctx, p)
	deadline := time.Now().Add(defaultWithin)
	for {
		err := judgeBoth(v, started == nil, p.ExitCode(), p.Log())
		if err == nil || time.Now().After(deadline) {
			return err
		}
		if err := sleep(ctx, pollPause); err != nil {
			return err
		}
	}
}

// sortedSyncds are the syncds in the order of their clusters.
func (w *world) sortedSyncds() []*syncdProcess {
	var list []*syncdProcess
	for _, id := range slices.Sorted(maps.Keys(w.syncds)) {
		list = append(list, w.syncds[id])
	}
	return list
}
