package plan

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxMessage is the API's bound for a condition's message, in bytes.
const MaxMessage = 32768

// SetCondition puts a condition into a list, as seen at a generation of its object.
// now dates it if its status changes; nothing else moves the time.
func SetCondition(all *[]metav1.Condition, c metav1.Condition, generation int64, now metav1.Time) {
	if len(c.Message) > MaxMessage {
		c.Message = strings.ToValidUTF8(c.Message[:MaxMessage], "")
	}
	c.ObservedGeneration, c.LastTransitionTime = generation, now
	meta.SetStatusCondition(all, c)
}
