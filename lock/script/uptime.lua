-- Tells how long the server has been up and whether it was ever a replica, for a
-- lock whose members forget their holds when they are restarted or fail over.
--
-- KEYS[1] the lock's hash; not touched, it says which server is asked
--
-- Answers {seconds, run id, replication id, 0 if it is a master and tells of no
-- time as a replica, 1 if it is a master and was a replica or has loaded the
-- file of another run, 2 if it is a replica}; a server that does not tell that
-- is an error. A master that has had no replica for repl-backlog-ttl forgets its
-- second replication id. What it has read as a replica, which servers of Redis 7
-- count, it does not forget.
local server, replication = redis.call('info', 'server'), redis.call('info', 'replication')
local uptime = tonumber(string.match(server, 'uptime_in_seconds:(%d+)') or '')
local id = string.match(server, 'run_id:(%w+)')
local role = string.match(replication, 'role:(%a+)')
local now = string.match(replication, 'master_replid:(%w+)')
local before = string.match(replication, 'master_replid2:(%w+)')
local offset = tonumber(string.match(replication, 'second_repl_offset:(-?%d+)') or '')
if not uptime or not id or not role or not now or not before or not offset then
  return redis.error_reply('ERR wheellock: INFO tells no uptime_in_seconds, run_id, role, master_replid, master_replid2 or second_repl_offset')
end
local read = string.match(redis.call('info', 'stats'), 'total_net_repl_input_bytes:(%d+)') or '0'
local state = 0
if role ~= 'master' then
  state = 2
elseif string.match(before, '[^0]') or offset >= 0 or read ~= '0' then
  state = 1
end
return {uptime, id, now, state}
