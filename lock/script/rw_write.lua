-- Takes a read-write lock for a new write hold, or confirms that an earlier copy of the request
-- did.
--
-- KEYS[1]  the lock's hash {mode: read or write, field: count}
-- KEYS[2]  the waiting writers {writer: 1}
-- ARGV[1]  field of the hold, never used before
-- ARGV[2]  lease in ms, at least 1
-- ARGV[3]  name of the writer, for KEYS[2]
-- ARGV[4]  how long to keep new readers out if readers hold the lock, in ms; 0: do not
-- ARGV[5]  prefix of the names of timeouts
-- ARGV[6]  channel on which a release wakes waiters
-- ARGV[7]  command that publishes there
-- ARGV[8+] fields of the client's earlier attempts with an unknown outcome
--
-- Answers {1, 1} acquired, {0, pttl} held by others (pttl in ms, -1: none),
-- {0, pttl, 1} held by another library.
local lock = KEYS[1]
local field, leaseText, writer, keepOut = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local lease = tonumber(leaseText)
writers, channel, publish, prefix = KEYS[2], ARGV[6], ARGV[7], ARGV[5]
if not lease or lease < 1 then
  return redis.error_reply('ERR wheellock: rw_write needs a lease of at least 1 ms')
end
local found = redis.pcall('hget', lock, 'mode')
if type(found) == 'table' then
  local left = foreign(lock)
  return left and {0, left, 1} or found
end
redis.call('hlen', writers) -- fails, before anything is changed, at a key of another type
tidy()
local mine = redis.call('hexists', lock, field) == 1
if not mine and redis.call('exists', lock) == 1 and not (thinned() and redis.call('exists', lock) == 0) then
  if keepOut ~= '0' and redis.call('hget', lock, 'mode') == 'read' then
    redis.call('hset', writers, writer, '1')
    local never = prolong(writers, tonumber(keepOut))
    if never then -- it would keep readers out for ever
      redis.call('hdel', writers, writer)
      return never
    end
  end
  return {0, redis.call('pttl', lock)}
end
local waits = redis.call('hexists', writers, writer) == 1
if waits then
  redis.call('hdel', writers, '') -- fails here if HDEL is forbidden, before the lock is taken
end
redis.call('hset', lock, 'mode', 'write')
redis.call('hset', lock, field, '1')
local never = prolong(lock, lease)
if never then -- no hold without an end
  if not mine then
    redis.call('hdel', lock, field, 'mode')
  end
  return never
end
if waits then
  redis.call('hdel', writers, writer)
end
return {1, 1}
