package caserun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// peerAccount is the ServiceAccount whose token a peer is given.
const peerAccount = "peer"

// needsTokens reports whether peers have tokens, which can be revoked, in place
// of certificates.
func (c *Case) needsTokens() bool {
	return slices.ContainsFunc(c.Events, func(e Event) bool { return e.Do == "credentials" })
}

// issue makes a token of the peer account that ends with the Secret of the
// given name, and a kubeconfig with it.
func (m *member) issue(ctx context.Context, kubeconfig []byte, name string) ([]byte, error) {
	secret, err := m.kube.CoreV1().Secrets(homeNamespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("bind token: %w", err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Secret", APIVersion: "v1", Name: name, UID: secret.UID},
	}}
	token, err := m.kube.CoreV1().ServiceAccounts(homeNamespace).CreateToken(ctx, peerAccount, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("make token: %w", err)
	}
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	for user := range config.AuthInfos {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	return clientcmd.Write(*config)
}

// issue makes the next token for a cluster's way to a peer.
func (w *world) issue(ctx context.Context, peer *member, kubeconfig []byte, cluster, id string) ([]byte, error) {
	key := cluster + "/" + id
	kubeconfig, err := peer.issue(ctx, kubeconfig, tokenName(cluster, len(w.tokens[key])))
	if err != nil {
		return nil, err
	}
	w.tokens[key] = append(w.tokens[key], kubeconfig)
	return kubeconfig, nil
}

// tokenName is the Secret that a token given to a cluster is bound to.
func tokenName(cluster string, number int) string { return fmt.Sprintf("token-%s-%d", cluster, number) }

// doCredentials changes what one cluster reaches a peer with.
func doCredentials(ctx context.Context, w *world, e Event) error {
	m, err := w.member(e.Cluster)
	if err != nil {
		return err
	}
	peer, err := w.member(e.Peer)
	if err != nil {
		return err
	}
	if e.Set == "old_token_revoked" {
		return w.revoke(ctx, e, peer)
	}
	kubeconfig, err := peer.UserKubeconfig(peerUser, group)
	if err != nil {
		return err
	}
	for _, way := range w.between(e.Cluster, e.Peer) {
		if kubeconfig, err = way.link.Kubeconfig(kubeconfig); err != nil {
			return err
		}
	}
	if kubeconfig, err = w.issue(ctx, peer, kubeconfig, e.Cluster, e.Peer); err != nil {
		return err
	}
	return m.peerSecret(ctx, "peer-"+e.Peer, e.Peer, kubeconfig)
}

// between are the ways from the processes of a cluster to an API server.
func (w *world) between(cluster, peer string) []*way {
	return slices.DeleteFunc(w.to(peer), func(r *way) bool { return r.from != cluster })
}

// revoke ends the token before the newest one. It returns when the API server
// no longer remembers it, and breaks the connections that were made with it.
func (w *world) revoke(ctx context.Context, e Event, peer *member) error {
	issued := w.tokens[e.Cluster+"/"+e.Peer]
	if len(issued) < 2 {
		return errors.New("revoke token: there is no older one")
	}
	old := len(issued) - 2
	if err := peer.kube.CoreV1().Secrets(homeNamespace).Delete(ctx, tokenName(e.Cluster, old), metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("revoke token: %w", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(issued[old])
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	deadline := time.Now().Add(startTimeout)
	for {
		_, err := client.CoreV1().Services("default").List(ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsUnauthorized(err) {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("revoke token: it is good %v later", startTimeout)
		}
		if err := sleep(ctx, 5*pollPause); err != nil {
			return err
		}
	}
	for _, way := range w.between(e.Cluster, e.Peer) {
		way.link.Cut()
		way.link.Restore()
	}
	return nil
}
