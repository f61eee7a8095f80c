package source

// Reason is why an object, or a part of it, is not served. The set is closed,
// so that it can be the label of a metric.
type Reason string

// The reasons.
const (
	BadName        Reason = "name"          // the name of an import is no DNS label
	BadService     Reason = "service"       // a slice names no service
	BadClusterID   Reason = "cluster_id"    // a slice names no cluster
	BadAddressType Reason = "address_type"  // neither IPv4 nor IPv6
	BadAddress     Reason = "address"       // no address, or one that may not be served
	BadHost        Reason = "host"          // a host name that is no DNS label
	BadPort        Reason = "port"          // a port without a number, or of an unknown protocol
	NameTooLong    Reason = "name_too_long" // a name that has no room in DNS
)

// SnapshotResult is how the reading of a snapshot ended.
type SnapshotResult string

// The results. All but SnapshotGood leave the answers to the API server.
const (
	SnapshotGood        SnapshotResult = "good"
	SnapshotAbsent      SnapshotResult = "absent"      // there is no file
	SnapshotUnreadable  SnapshotResult = "unreadable"  // the file cannot be read
	SnapshotTruncated   SnapshotResult = "truncated"   // the file ends early
	SnapshotDamaged     SnapshotResult = "damaged"     // the checksum does not match
	SnapshotVersion     SnapshotResult = "version"     // another version wrote it
	SnapshotTooOld      SnapshotResult = "too_old"     // older than MAX_AGE
	SnapshotFingerprint SnapshotResult = "fingerprint" // of other options, or of another cluster
)
