// Package api is the one place that names the version of the MCS API in use:
// v1beta1, the storage version of the CRDs (KEP-1645).
package api

import v1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

// The kinds, as every other package names them.
type (
	ServiceImport       = v1beta1.ServiceImport
	ServiceImportSpec   = v1beta1.ServiceImportSpec
	ServiceImportStatus = v1beta1.ServiceImportStatus
	ServiceImportType   = v1beta1.ServiceImportType
	ServicePort         = v1beta1.ServicePort
	ClusterStatus       = v1beta1.ClusterStatus
	ServiceExport       = v1beta1.ServiceExport
	ServiceExportList   = v1beta1.ServiceExportList
)

// The two types of a ServiceImport.
const (
	ClusterSetIP = v1beta1.ClusterSetIP
	Headless     = v1beta1.Headless
)

// EndpointSlicesPresent is what syncd says in a ServiceImport's
// status.endpointSliceObjects.
const EndpointSlicesPresent = v1beta1.EndpointSliceObjectsPresent
