// Writes the certificate authority of a cluster, a certificate for its API server and one for each client, so that
// no openssl has to be installed:
//
//	certificates -dir DIR -host NAME_OR_ADDRESS... -client FILE=USER[/GROUP]...
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"log"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const lifetime = 10 * 365 * 24 * time.Hour

type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

type authority struct {
	dir         string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func main() {
	var hosts, clients list
	dir := flag.String("dir", ".", "where the files go")
	flag.Var(&hosts, "host", "name or address of the API server, repeatable")
	flag.Var(&clients, "client", "FILE=USER[/GROUP], repeatable")
	flag.Parse()
	if err := write(*dir, hosts, clients); err != nil {
		log.Fatal(err)
	}
}

func write(dir string, hosts, clients []string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca := authority{dir: dir}
	root := template("localcluster", nil)
	root.IsCA, root.BasicConstraintsValid, root.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	if err := ca.issue("ca", root); err != nil {
		return err
	}
	server := template("kube-apiserver", nil)
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if address := net.ParseIP(host); address != nil {
			server.IPAddresses = append(server.IPAddresses, address)
		} else {
			server.DNSNames = append(server.DNSNames, host)
		}
	}
	if err := ca.issue("apiserver", server); err != nil {
		return err
	}
	for _, client := range clients {
		file, subject, found := strings.Cut(client, "=")
		if !found {
			return fmt.Errorf("-client %s: expected FILE=USER[/GROUP]", client)
		}
		user, group, grouped := strings.Cut(subject, "/")
		var groups []string
		if grouped {
			groups = []string{group}
		}
		wanted := template(user, groups)
		wanted.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		if err := ca.issue(file, wanted); err != nil {
			return err
		}
	}
	// Service account tokens are signed with a key of their own; nothing has to trust a certificate for it.
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return writeKey(filepath.Join(dir, "service-accounts.key"), key)
}

func template(user string, groups []string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		log.Fatal(err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: user, Organization: groups},
		// A clock that is set back a little must not invalidate a young cluster.
		NotBefore: now.Add(-time.Hour),
		NotAfter:  now.Add(lifetime),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}
}

// The first certificate issued is the authority's own.
func (ca *authority) issue(file string, wanted *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if ca.certificate == nil {
		ca.certificate, ca.key = wanted, key
	}
	der, err := x509.CreateCertificate(rand.Reader, wanted, ca.certificate, &key.PublicKey, ca.key)
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(ca.dir, file+".crt"), "CERTIFICATE", der); err != nil {
		return err
	}
	return writeKey(filepath.Join(ca.dir, file+".key"), key)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
