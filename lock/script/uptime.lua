-- Tells how long the server has been up and whether it was ever a replica. RedLock asks this,
-- because a member forgets its holds when it restarts or fails over.
--
-- KEYS[1] the lock's hash; it is not touched and only selects the server
--
-- Answers {seconds, run id, replication id, state}. The state is
--   0  a master without a sign that it was ever a replica
--   1  a master that was a replica or has loaded the file of another run
--   2  a replica
-- A server whose INFO lacks these fields is an error. A master without a replica forgets its
-- second replication id after repl-backlog-ttl. It does not forget how much it has read as a
-- replica, which Redis 7 counts.
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
