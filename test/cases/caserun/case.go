package caserun

// Case is one case file. The tag of a field is its key in the file; Line, where
// there is one, is where the mapping began.
type Case struct {
	File  string   // base name
	Skips []string // why this runner cannot run it, if it cannot

	ID           string                  `case:"id"`
	Split        string                  `case:"split"`
	Family       string                  `case:"family"`
	Layer        string                  `case:"layer"`
	Basis        string                  `case:"basis"`
	Title        string                  `case:"title"`
	Fault        string                  `case:"fault"`
	Reason       string                  `case:"reason"`
	Notes        string                  `case:"notes"`
	Alternatives []string                `case:"alternatives"`
	Sources      any                     `case:"sources"`
	Clusters     map[string]ClusterState `case:"clusters"`
	Generate     []Generate              `case:"generate"`
	Config       Config                  `case:"config"`
	Events       []Event                 `case:"events"`
	Queries      []Query                 `case:"queries"`
	Expect       Expect                  `case:"expect"`
}

// Object is a Kubernetes object, or a part of one.
type Object map[string]any

// ClusterState is what a cluster holds before step 0.
type ClusterState struct {
	Objects []Object `case:"objects"`
}

// Generate makes objects in bulk.
type Generate struct {
	Line              int
	Kind              string `case:"kind"`
	Cluster           string `case:"cluster"`
	Service           string `case:"service"`
	SourceCluster     string `case:"source_cluster"`
	Count             int    `case:"count"`
	PerSlice          int    `case:"per_slice"`
	FirstIP           string `case:"first_ip"`
	HostnamePrefix    string `case:"hostname_prefix"`
	Namespace         string `case:"namespace"`
	SlicesEach        int    `case:"slices_each"`
	EndpointsPerSlice int    `case:"endpoints_per_slice"`
}

// Config is what differs from the default.
type Config struct {
	Corefile         string            `case:"corefile"`
	Upstream         *Upstream         `case:"upstream"`
	ClusterDNS       *ClusterDNS       `case:"cluster_dns"`
	APIAtStart       string            `case:"api_at_start"`
	APIBlock         []APIBlock        `case:"api_block"`
	RBACDeny         []RBACDeny        `case:"rbac_deny"`
	CRDsAtStart      map[string]string `case:"crds_at_start"`
	Syncd            Syncd             `case:"syncd"`
	CorefileVariants []Variant         `case:"corefile_variants"`
	SyncdVariants    []Variant         `case:"syncd_variants"`
}

// Upstream is the stub server behind {{UPSTREAM}}.
type Upstream struct {
	Records      []string `case:"records"`
	DefaultRcode string   `case:"default_rcode"`
}

// ClusterDNS is the resolver behind {{CLUSTER_DNS}}.
type ClusterDNS struct {
	StubDomains map[string][]string `case:"stub_domains"`
}

// APIBlock is a kind of request that the API server does not answer.
type APIBlock struct {
	Verb     string `case:"verb"`
	Resource string `case:"resource"`
	Answer   string `case:"answer"`
}

// RBACDeny takes rights from the role of a process.
type RBACDeny struct {
	Process  string   `case:"process"`
	Resource string   `case:"resource"`
	Verbs    []string `case:"verbs"`
}

// Syncd is options of syncd by meaning.
type Syncd struct {
	LeaseSeconds     int              `case:"lease_seconds"`
	ResyncSeconds    int              `case:"resync_seconds"`
	DeniedNamespaces []string         `case:"denied_namespaces"`
	Peers            map[string]PeerX `case:"peers"`
}

// PeerX replaces what the peer Secret would hold.
type PeerX struct {
	Kubeconfig string `case:"kubeconfig"`
}

// Variant is one start of a process.
type Variant struct {
	Line          int
	Corefile      string   `case:"corefile"`
	Block         string   `case:"block"`
	ClusterID     string   `case:"cluster_id"`
	Peers         []string `case:"peers"`
	ExpectStart   string   `case:"expect_start"`
	ErrorContains string   `case:"error_contains"`
}

// Event is something that happens. Which fields belong to which verb is in
// the table verbs.
type Event struct {
	Line              int
	Step              int               `case:"step"`
	Do                string            `case:"do"`
	Cluster           string            `case:"cluster"`
	Clusters          []string          `case:"clusters"`
	Objects           []Object          `case:"objects"`
	Refs              []string          `case:"refs"`
	Kind              string            `case:"kind"`
	Select            map[string]string `case:"select"`
	Replace           bool              `case:"replace"`
	WaitGone          bool              `case:"wait_gone"`
	HoldWithFinalizer bool              `case:"hold_with_finalizer"`
	Ref               string            `case:"ref"`
	Namespace         string            `case:"namespace"`
	Patch             Object            `case:"patch"`
	Patches           []Object          `case:"patches"`
	IntervalMS        int               `case:"interval_ms"`
	Index             int               `case:"index"`
	Set               string            `case:"set"`
	ExpireWatches     bool              `case:"expire_watches"`
	Unblock           any               `case:"unblock"`
	Peer              string            `case:"peer"`
	Process           string            `case:"process"`
	Grant             string            `case:"grant"`
	Revoke            string            `case:"revoke"`
	Times             int               `case:"times"`
	Change            string            `case:"change"`
	Seconds           float64           `case:"seconds"`
	Within            float64           `case:"within"`
	Name              string            `case:"name"`
	Type              string            `case:"type"`

	keys map[string]int // key to line
}

// Query is a question and what its answer has to be.
type Query struct {
	Line        int
	After       int         `case:"after"`
	At          string      `case:"at"`
	Name        string      `case:"name"`
	Type        string      `case:"type"`
	Class       string      `case:"class"`
	Proto       string      `case:"proto"`
	EDNSBufsize *int        `case:"edns_bufsize"`
	EDNSCookie  string      `case:"edns_cookie"`
	Repeat      int         `case:"repeat"`
	Via         string      `case:"via"`
	Expect      QueryExpect `case:"expect"`
}

// QueryExpect is what a reply has to be; a nil field is not compared.
type QueryExpect struct {
	Rcode                Words    `case:"rcode"`
	Answer               *Words   `case:"answer"`
	AnswerCount          *int     `case:"answer_count"`
	AnswerCountMin       *int     `case:"answer_count_min"`
	AnswerTypes          *Words   `case:"answer_types"`
	AnswerContains       Words    `case:"answer_contains"`
	AnswerExcludes       Words    `case:"answer_excludes"`
	AnswerNoDuplicates   *bool    `case:"answer_no_duplicates"`
	AnswerSame           *bool    `case:"answer_same"`
	Authority            string   `case:"authority"`
	SOAOwner             string   `case:"soa_owner"`
	SOATTLMax            *int     `case:"soa_ttl_max"`
	SOAMinimumMax        *int     `case:"soa_minimum_max"`
	AA                   *bool    `case:"aa"`
	TC                   *bool    `case:"tc"`
	OPT                  *bool    `case:"opt"`
	MaxSize              *int     `case:"max_size"`
	TTLEqual             *bool    `case:"ttl_equal"`
	TTLMin               *int     `case:"ttl_min"`
	TTLMax               *int     `case:"ttl_max"`
	FollowTargets        *bool    `case:"follow_targets"`
	TargetsValidHostname *bool    `case:"targets_valid_hostname"`
	ExactCase            bool     `case:"exact_case"`
	SaveSerial           string   `case:"save_serial"`
	Serial               *Serial  `case:"serial"`
	Within               float64  `case:"within"`
	LatencyMaxMS         *float64 `case:"latency_max_ms"`
	ExitStatus           *int     `case:"exit_status"`
}

// Serial compares the SOA serial with a saved one.
type Serial struct {
	Equal   string `case:"equal"`
	Greater string `case:"greater"`
}

// Words is a list of words, or one word in its place.
type Words []string

// Expect is what has to hold outside DNS.
type Expect struct {
	Objects         []ObjectCheck     `case:"objects"`
	Conditions      []ConditionCheck  `case:"conditions"`
	Unchanged       []UnchangedCheck  `case:"unchanged"`
	SameEverywhere  []SameCheck       `case:"same_everywhere"`
	Consistent      []ConsistentCheck `case:"consistent"`
	LocalEndpoints  []LocalCheck      `case:"local_endpoints"`
	Writes          []WritesCheck     `case:"writes"`
	APIRejections   []RejectionCheck  `case:"api_rejections"`
	HTTP            []HTTPCheck       `case:"http"`
	Process         []ProcessCheck    `case:"process"`
	Start           string            `case:"start"`
	Logs            []LogCheck        `case:"logs"`
	Metrics         []MetricCheck     `case:"metrics"`
	UpstreamQueries *UpstreamCheck    `case:"upstream_queries"`
	Manifests       []ManifestCheck   `case:"manifests"`
	Latency         []LatencyCheck    `case:"latency"`
}

// ObjectCheck is about one object, or about those that labels select.
type ObjectCheck struct {
	Line         int
	After        *int              `case:"after"`
	Cluster      string            `case:"cluster"`
	Kind         string            `case:"kind"`
	Namespace    string            `case:"namespace"`
	Name         string            `case:"name"`
	Select       map[string]string `case:"select"`
	Match        Object            `case:"match"`
	Absent       bool              `case:"absent"`
	Addresses    *Words            `case:"addresses"`
	ManagedBy    string            `case:"managed_by"`
	ForbidLabels map[string]string `case:"forbid_labels"`
	Count        *int              `case:"count"`
	Within       float64           `case:"within"`
}

// ConditionCheck is about one condition of an object.
type ConditionCheck struct {
	Line           int
	After          *int    `case:"after"`
	Cluster        string  `case:"cluster"`
	Kind           string  `case:"kind"`
	Namespace      string  `case:"namespace"`
	Name           string  `case:"name"`
	Type           string  `case:"type"`
	Status         string  `case:"status"`
	Reason         string  `case:"reason"`
	ReasonContains string  `case:"reason_contains"`
	ReasonMatches  string  `case:"reason_matches"`
	Within         float64 `case:"within"`
}

// UnchangedCheck compares fields of an object between two steps.
type UnchangedCheck struct {
	Line      int
	Between   []int    `case:"between"`
	Cluster   string   `case:"cluster"`
	Kind      string   `case:"kind"`
	Namespace string   `case:"namespace"`
	Name      string   `case:"name"`
	Fields    []string `case:"fields"`

	inverted bool
}

// SameCheck compares fields of an object between clusters.
type SameCheck struct {
	Line      int
	After     *int     `case:"after"`
	Kind      string   `case:"kind"`
	Namespace string   `case:"namespace"`
	Name      string   `case:"name"`
	Fields    []string `case:"fields"`
	Clusters  []string `case:"clusters"`
	StableFor float64  `case:"stable_for"`

	inverted bool
}

// ConsistentCheck is a rule between an import and other objects.
type ConsistentCheck struct {
	Line    int
	After   *int   `case:"after"`
	Cluster string `case:"cluster"`
	Import  string `case:"import"`
	Rule    string `case:"rule"`

	inverted bool
}

// LocalCheck is about the slices of a plain local Service.
type LocalCheck struct {
	Line      int
	After     *int   `case:"after"`
	Cluster   string `case:"cluster"`
	Service   string `case:"service"`
	Addresses *Words `case:"addresses"`
}

// WritesCheck bounds the writes of a process between two steps.
type WritesCheck struct {
	Line        int
	Process     string   `case:"process"`
	Cluster     string   `case:"cluster"`
	Window      []int    `case:"window"`
	Verb        string   `case:"verb"`
	ExceptKinds []string `case:"except_kinds"`
	Max         int      `case:"max"`
}

// RejectionCheck bounds what API servers refuse.
type RejectionCheck struct {
	Line    int
	Process string `case:"process"`
	Cluster string `case:"cluster"`
	Max     int    `case:"max"`
}

// HTTPCheck asks for a page of a process.
type HTTPCheck struct {
	Line    int
	After   *int   `case:"after"`
	Process string `case:"process"`
	Cluster string `case:"cluster"`
	Path    string `case:"path"`
	Status  int    `case:"status"`
}

// ProcessCheck says how often a process may have started again by itself.
type ProcessCheck struct {
	Line     int
	Process  string `case:"process"`
	Cluster  string `case:"cluster"`
	Restarts int    `case:"restarts"`
}

// LogCheck is about lines of a log.
type LogCheck struct {
	Line         int
	Process      string `case:"process"`
	Cluster      string `case:"cluster"`
	Level        string `case:"level"`
	Contains     string `case:"contains"`
	MaxPerMinute *int   `case:"max_per_minute"`
}

// MetricCheck is about series, by meaning.
type MetricCheck struct {
	Line    int
	After   *int              `case:"after"`
	Process string            `case:"process"`
	Cluster string            `case:"cluster"`
	About   string            `case:"about"`
	Labels  map[string]string `case:"labels"`
	Shows   string            `case:"shows"`
}

// UpstreamCheck bounds the questions about a name that reach the stub server.
type UpstreamCheck struct {
	Line int
	Name string `case:"name"`
	Max  int    `case:"max"`
}

// ManifestCheck is about shipped YAML.
type ManifestCheck struct {
	Line         int
	Kind         string   `case:"kind"`
	Name         string   `case:"name"`
	Namespace    string   `case:"namespace"`
	PortsContain []Object `case:"ports_contain"`
	DataKey      string   `case:"data_key"`
	JSONSchema   Object   `case:"json_schema"`
	HasKey       string   `case:"has_key"`
}

// LatencyCheck bounds the way of the change of a step from one cluster to another.
type LatencyCheck struct {
	Line       int
	After      *int    `case:"after"`
	From       string  `case:"from"`
	To         string  `case:"to"`
	MaxSeconds float64 `case:"max_seconds"`
}
