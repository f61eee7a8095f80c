package kubetest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// pki is the certificate authority of one cluster. It signs the API server's
// certificate and those of its clients.
type pki struct {
	dir   string // holds ca.crt, apiserver.crt, apiserver.key and sa.key
	ca    *x509.Certificate
	key   crypto.Signer
	caPEM []byte
}

// certLife is longer than any run and short enough to be worth nothing later.
const certLife = 7 * 24 * time.Hour

// newPKI makes an authority and writes what the control plane reads into dir.
// The API server's certificate is for 127.0.0.1 and the usual names.
func newPKI(dir, cluster string) (*pki, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder for certificates: %w", err)
	}
	key, _, err := newKey()
	if err != nil {
		return nil, err
	}
	p := &pki{dir: dir, key: key}
	template, err := newTemplate(pkix.Name{CommonName: cluster + "-ca"})
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	if p.ca, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	p.caPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})

	server, err := newTemplate(pkix.Name{CommonName: "kube-apiserver"})
	if err != nil {
		return nil, err
	}
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	server.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	serverCert, serverKey, err := p.sign(server)
	if err != nil {
		return nil, err
	}
	_, saKey, err := newKey()
	if err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{
		"ca.crt": p.caPEM, "apiserver.crt": serverCert, "apiserver.key": serverKey, "sa.key": saKey,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, fmt.Errorf("write certificates: %w", err)
		}
	}
	return p, nil
}

// client makes a client certificate: Kubernetes reads the user out of the
// common name and the groups out of the organizations.
func (p *pki) client(user string, groups ...string) (cert, key []byte, err error) {
	template, err := newTemplate(pkix.Name{CommonName: user, Organization: groups})
	if err != nil {
		return nil, nil, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return p.sign(template)
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("choose serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Minute),
		NotAfter:     now.Add(certLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}, nil
}

func (p *pki) sign(template *x509.Certificate) (cert, key []byte, err error) {
	private, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, p.ca, private.Public(), p.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate of %s: %w", template.Subject.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM, nil
}

func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
