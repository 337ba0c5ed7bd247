package diagnosis

import (
	"fmt"
	"strings"
)

// Settings reads the answer of INFO. slots: the client knows that the server is of a
// Cluster.
func (r *Report) Settings(info string, slots bool) {
	field := fields(info)
	switch policy, limit := field["maxmemory_policy"], field["maxmemory"]; {
	case policy == "":
		r.Advice("it does not tell its maxmemory-policy: check that it is noeviction, because other policies remove locks when memory is full")
	case policy != "noeviction" && limit != "0":
		r.Problem(fmt.Sprintf("its maxmemory-policy is %s, so it may remove locks when its memory (maxmemory %s) is full: "+
			"set maxmemory-policy noeviction, or keep locks on a server of their own", policy, limit))
	case policy != "noeviction":
		r.Advice(fmt.Sprintf("its maxmemory-policy is %s, by which it removes locks as soon as somebody sets a maxmemory: "+
			"set maxmemory-policy noeviction", policy))
	}
	if !slots && field["cluster_enabled"] == "1" {
		r.Advice("it is a node of a Redis Cluster, and this client knows no other: that works only while this server has the slot of the locks; " +
			"give a Topology of package lock/cluster to lock.NewTopology")
	}
	switch field["aof_enabled"] {
	case "0":
		r.Advice("its appendonly is no, so locks are forgotten when it is restarted, and their holders are told a third of a lease later: " +
			"if locks are to survive that, set appendonly yes")
	case "":
		r.Advice("it does not tell whether it keeps its data over a restart: if locks must survive one, check that appendonly is yes")
	}
	switch replicas, major := field["connected_slaves"], before(field["redis_version"], "."); {
	case replicas == "" || replicas == "0":
	case major == "4" || major == "5": // their scripts write whatever min-replicas-to-write says
		r.Advice(fmt.Sprintf("it has %s replicas, and Redis %s takes locks while it is cut off from them, which a failover forgets: "+
			"use Redis 6 or newer with min-replicas-to-write 1, or Config.Replicas", replicas, major))
	case field["min_slaves_good_slaves"] == "":
		r.Advice(fmt.Sprintf("it has %s replicas, and its min-replicas-to-write is 0, so a master that is cut off from them takes locks "+
			"that a failover forgets: set min-replicas-to-write 1", replicas))
	}
}

// Appendfsync reads the answer of CONFIG GET appendfsync of a server whose appendonly is
// yes; err says that it did not tell.
func (r *Report) Appendfsync(value string, err error) {
	switch {
	case err != nil || value == "":
		r.Advice("it does not tell its appendfsync: unless that is always, locks of the last second are forgotten when the machine fails", err)
	case value != "always":
		r.Advice(fmt.Sprintf("its appendfsync is %s, so locks of the last moments are forgotten when the machine fails: "+
			"if they are to survive that, set appendfsync always, which is slow", value))
	}
}

// before is what stands in text before sep.
func before(text, sep string) string {
	text, _, _ = strings.Cut(text, sep)
	return text
}

// PersistsByAOF reports whether INFO says so.
func PersistsByAOF(info string) bool { return fields(info)["aof_enabled"] == "1" }

// fields are the fields of an INFO.
func fields(info string) map[string]string {
	field := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			field[name] = value
		}
	}
	return field
}
