package api

import corev1 "k8s.io/api/core/v1"

// The v1 Endpoints API is deprecated, and shown by GKE's tools all the same;
// these names are the only place that says so.
type (
	Endpoints       = corev1.Endpoints       //nolint:staticcheck // see above
	EndpointSubset  = corev1.EndpointSubset  //nolint:staticcheck // see above
	EndpointAddress = corev1.EndpointAddress //nolint:staticcheck // see above
	EndpointPort    = corev1.EndpointPort
)
