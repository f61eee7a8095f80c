package peer

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// CredentialError is a peer Secret that cannot be used as it is.
type CredentialError struct {
	// Reason is a word for metrics: NoKubeconfig, BadKubeconfig, ForbiddenForm, BadToken.
	Reason string
	// Remedy says what to do about it.
	Remedy string
	err    error
}

// Error says what is wrong; the remedy is a field of its own.
func (e *CredentialError) Error() string { return e.err.Error() }

// Unwrap is the cause.
func (e *CredentialError) Unwrap() error { return e.err }

// The reasons of a CredentialError.
const (
	ReasonNoKubeconfig  = "NoKubeconfig"
	ReasonBadKubeconfig = "BadKubeconfig"
	ReasonForbiddenForm = "ForbiddenForm"
	ReasonBadToken      = "BadToken"
)

// The keys of a peer Secret without a kubeconfig: those of a ServiceAccount's
// token Secret, and the server, which such a Secret does not name.
const (
	keyServer = "server"
	keyCA     = "ca.crt"
	keyToken  = "token"
)

// Credential makes a client configuration out of a peer Secret. It needs the key
// "kubeconfig" with everything in it, or "server", "ca.crt" and "token". A
// kubeconfig that runs a program or reads files of this machine is refused: whoever
// may write a Secret must not thereby run commands in syncd's pod. The error is a
// *CredentialError.
func Credential(secret *corev1.Secret) (*rest.Config, error) {
	data := secret.Data[mcs.SecretKeyKubeconfig]
	if len(data) == 0 {
		if len(secret.Data[keyServer]) > 0 || len(secret.Data[keyToken]) > 0 {
			return tokenCredential(secret)
		}
		return nil, &CredentialError{
			ReasonNoKubeconfig,
			fmt.Sprintf("put the peer's kubeconfig under the key %q of the Secret, or %s, %s and %s", mcs.SecretKeyKubeconfig, keyServer, keyCA, keyToken),
			fmt.Errorf("read Secret: no key %q", mcs.SecretKeyKubeconfig),
		}
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil, bad(err)
	}
	if err := selfContained(config); err != nil {
		return nil, err
	}
	client, err := clientcmd.NewDefaultClientConfig(*config, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, bad(err)
	}
	return client, nil
}

// tokenCredential is for a Secret with a server, its certificate authority and a token.
func tokenCredential(secret *corev1.Secret) (*rest.Config, error) {
	var missing []string
	for _, key := range []string{keyServer, keyCA, keyToken} {
		if len(bytes.TrimSpace(secret.Data[key])) == 0 {
			missing = append(missing, key)
		}
	}
	incomplete := func(err error) error {
		return &CredentialError{
			ReasonBadToken,
			fmt.Sprintf("the Secret needs %s (https://host:port), %s (PEM) and %s, or a kubeconfig", keyServer, keyCA, keyToken),
			fmt.Errorf("read Secret: %w", err),
		}
	}
	if len(missing) > 0 {
		return nil, incomplete(errors.New("no key " + strings.Join(missing, ", ")))
	}
	server := strings.TrimSpace(string(secret.Data[keyServer]))
	if u, err := url.Parse(server); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, incomplete(errors.New("server is not https://host:port: a token must not travel in the clear"))
	}
	if !x509.NewCertPool().AppendCertsFromPEM(secret.Data[keyCA]) {
		return nil, incomplete(fmt.Errorf("%s has no PEM certificate", keyCA))
	}
	return &rest.Config{
		Host:            server,
		BearerToken:     strings.TrimSpace(string(secret.Data[keyToken])),
		TLSClientConfig: rest.TLSClientConfig{CAData: secret.Data[keyCA]},
	}, nil
}

func bad(err error) error {
	return &CredentialError{
		ReasonBadKubeconfig,
		"replace it by one that works with: kubectl --kubeconfig FILE get serviceexports -A",
		fmt.Errorf("parse kubeconfig: %w", err),
	}
}

// selfContained refuses what would make syncd run a program or read a file.
func selfContained(config *clientcmdapi.Config) error {
	var found []error
	for name, user := range config.AuthInfos {
		for field, set := range map[string]bool{
			"exec":               user.Exec != nil,
			"auth-provider":      user.AuthProvider != nil,
			"client-certificate": user.ClientCertificate != "",
			"client-key":         user.ClientKey != "",
			"tokenFile":          user.TokenFile != "",
		} {
			if set {
				found = append(found, fmt.Errorf("user %q has %s", name, field))
			}
		}
	}
	for name, cluster := range config.Clusters {
		if cluster.CertificateAuthority != "" {
			found = append(found, fmt.Errorf("cluster %q has certificate-authority", name))
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.SortFunc(found, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return &CredentialError{
		ReasonForbiddenForm,
		"use a token, or certificates as data: kubectl config view --raw --flatten",
		fmt.Errorf("read kubeconfig: a Secret must not name programs or files: %w", errors.Join(found...)),
	}
}
