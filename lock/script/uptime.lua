-- Tells how long the server has been up, for a lock whose members forget their
-- holds when they are restarted.
--
-- KEYS[1] the lock's hash; not touched, it says which server is asked
--
-- Answers {seconds, run id}; a server that does not tell them is an error.
local info = redis.call('info', 'server')
local uptime = tonumber(string.match(info, 'uptime_in_seconds:(%d+)') or '')
local id = string.match(info, 'run_id:(%w+)')
if not uptime or not id then
  return redis.error_reply('ERR wheellock: INFO server tells no uptime_in_seconds or no run_id')
end
return {uptime, id}
