package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// audit reads the audit log of a cluster, with everything that was asked of it
// before the call. To know that it is all there, it asks for something that
// nobody else does, and waits for that.
func (w *world) audit(ctx context.Context, c *kubetest.Cluster) ([]kubetest.AuditEvent, error) {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return nil, err
	}
	w.marks++
	mark := fmt.Sprintf("mark-%d", w.marks)
	_, err = client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, mark, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	var events []kubetest.AuditEvent
	err = w.await(ctx, "the audit log of "+c.Name(), 20*time.Millisecond, func() error {
		if events, err = c.AuditEvents(); err != nil {
			return err
		}
		if !slices.ContainsFunc(events, func(e kubetest.AuditEvent) bool { return e.Name == mark }) {
			return errors.New("it ends before the question")
		}
		return nil
	})
	return events, err
}

// requests are those of a user since a time that match, as "verb resource name".
func requests(events []kubetest.AuditEvent, user string, since time.Time, match func(kubetest.AuditEvent) bool) []string {
	var list []string
	for _, e := range events {
		if e.User == user && e.Time.After(since) && match(e) {
			list = append(list, fmt.Sprintf("%s %s %s", e.Verb, e.Resource, e.Name))
		}
	}
	return list
}

var (
	peerUser  = serviceAccount("k8s-mcs", "peer")
	syncdUser = serviceAccount("k8s-mcs", "syncd")
)
