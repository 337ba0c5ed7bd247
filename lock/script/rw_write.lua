-- Takes a read-write lock for a new write hold, or confirms that a repeated
-- request took it.
--
-- KEYS[1]  the lock's hash {mode: read or write, field: count}
-- KEYS[2]  the writers that wait {writer: 1}
-- ARGV[1]  field of the hold, never used before
-- ARGV[2]  lease in ms, at least 1
-- ARGV[3]  name of the writer, for KEYS[2]
-- ARGV[4]  how long new readers are kept out if there are readers, in ms; 0: not
-- ARGV[5]  what the names of timeouts begin with
-- ARGV[6]  channel on which a release wakes waiters
-- ARGV[7]  command that publishes there
-- ARGV[8+] fields of earlier attempts whose outcome their client never learned
--
-- Answers {1, 1} acquired, {0, pttl} held by others (pttl in ms, -1: none),
-- {0, pttl, 1} held by another library.
local lease = tonumber(ARGV[2])
if not lease or lease < 1 then
  return redis.error_reply('ERR wheellock: rw_write needs a lease of at least 1 ms')
end
local found = redis.pcall('hget', KEYS[1], 'mode')
if type(found) == 'table' then
  local left = foreign(KEYS[1])
  return left and {0, left, 1} or found
end
redis.call('hlen', KEYS[2]) -- fails, before anything is changed, at a key of another type
writers, channel, publish, prefix = KEYS[2], ARGV[6], ARGV[7], ARGV[5]
tidy()
local mine = redis.call('hexists', KEYS[1], ARGV[1]) == 1
if not mine and redis.call('exists', KEYS[1]) == 1 and not (thinned() and redis.call('exists', KEYS[1]) == 0) then
  if ARGV[4] ~= '0' and redis.call('hget', KEYS[1], 'mode') == 'read' then
    redis.call('hset', KEYS[2], ARGV[3], '1')
    local never = prolong(KEYS[2], tonumber(ARGV[4]))
    if never then -- readers would be kept out for ever
      redis.call('hdel', KEYS[2], ARGV[3])
      return never
    end
  end
  return {0, redis.call('pttl', KEYS[1])}
end
local waits = redis.call('hexists', KEYS[2], ARGV[3]) == 1
if waits then
  redis.call('hdel', KEYS[2], '') -- may it be called? Nothing below is refused once the lock is taken
end
redis.call('hset', KEYS[1], 'mode', 'write')
redis.call('hset', KEYS[1], ARGV[1], '1')
local never = prolong(KEYS[1], lease)
if never then -- nobody holds a lock that would never end
  if not mine then
    redis.call('hdel', KEYS[1], ARGV[1], 'mode')
  end
  return never
end
if waits then
  redis.call('hdel', KEYS[2], ARGV[3])
end
return {1, 1}
