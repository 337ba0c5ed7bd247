package diagnosis

import (
	"fmt"
	"strings"
)

// Settings reads the answer of INFO. slots says that the client knows the Cluster of the
// server.
func (r *Report) Settings(info string, slots bool) {
	field := fields(info)
	switch policy, limit := field["maxmemory_policy"], field["maxmemory"]; {
	case policy == "":
		r.Advice("the server does not tell its maxmemory-policy: check that it is noeviction, because other policies remove locks when memory is full")
	case policy != "noeviction" && limit != "0":
		r.Problem(fmt.Sprintf("the server's maxmemory-policy is %s, so it may remove locks when its memory (maxmemory %s) is full: "+
			"set maxmemory-policy noeviction, or keep locks on a server of their own", policy, limit))
	case policy != "noeviction":
		r.Advice(fmt.Sprintf("the server's maxmemory-policy is %s, by which it removes locks as soon as a maxmemory is set: "+
			"set maxmemory-policy noeviction", policy))
	}
	if !slots && field["cluster_enabled"] == "1" {
		r.Advice("the server is a node of a Redis Cluster, and this client knows no other node: that works only while this server has the slot of the locks; " +
			"give a Topology of package lock/cluster to lock.NewTopology")
	}
	switch field["aof_enabled"] {
	case "0":
		r.Advice("the server's appendonly is no, so locks are forgotten when it is restarted, and their holders are told a third of a lease later: " +
			"if locks are to survive that, set appendonly yes")
	case "":
		r.Advice("the server does not tell whether it keeps its data over a restart: if locks must survive one, check that appendonly is yes")
	}
	switch replicas, major := field["connected_slaves"], before(field["redis_version"], "."); {
	case replicas == "" || replicas == "0":
	case major == "4" || major == "5": // their scripts write whatever min-replicas-to-write says
		r.Advice(fmt.Sprintf("the server has replicas, and Redis %s takes locks while it is cut off from them, which a failover forgets: "+
			"use Redis 6 or newer with min-replicas-to-write 1, or Config.Replicas", major))
	case field["min_slaves_good_slaves"] == "":
		r.Advice("the server has replicas, and its min-replicas-to-write is 0, so a master that is cut off from them takes locks " +
			"that a failover forgets: set min-replicas-to-write 1")
	}
}

// Appendfsync reads the answer of CONFIG GET appendfsync of a server whose appendonly is
// yes. err says that the server did not tell.
func (r *Report) Appendfsync(value string, err error) {
	switch {
	case err != nil || value == "":
		r.Advice("the server does not tell its appendfsync: unless that is always, locks of the last second are forgotten when the machine fails", err)
	case value != "always":
		r.Advice(fmt.Sprintf("the server's appendfsync is %s, so locks of the last moments are forgotten when the machine fails: "+
			"if they are to survive that, set appendfsync always, which is slow", value))
	}
}

// before returns the part of text before sep.
func before(text, sep string) string {
	text, _, _ = strings.Cut(text, sep)
	return text
}

// PersistsByAOF reports whether INFO says that the server has an append-only file.
func PersistsByAOF(info string) bool { return fields(info)["aof_enabled"] == "1" }

// fields returns the fields of an INFO.
func fields(info string) map[string]string {
	field := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			field[name] = value
		}
	}
	return field
}
