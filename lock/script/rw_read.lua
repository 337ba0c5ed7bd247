-- Takes a read-write lock for a new read hold, or confirms that a repeated
-- request took it.
--
-- KEYS[1]  the lock's hash {mode: read or write, field: count}
-- KEYS[2]  the hold's timeout: present for as long as the hold lasts
-- KEYS[3]  the writers that wait {writer: 1}
-- ARGV[1]  field of the hold, never used before
-- ARGV[2]  lease in ms, at least 1
-- ARGV[3]  field of a write hold of the same owner, "" if there is none
-- ARGV[4]  1: writers that wait go first, 0: they do not
-- ARGV[5]  what the names of timeouts begin with
-- ARGV[6]  channel on which a release wakes waiters
-- ARGV[7]  command that publishes there
-- ARGV[8+] fields of earlier attempts whose outcome their client never learned
--
-- Answers {1, 1} acquired, {0, ms} held for writing, or a writer waits, for that
-- long (-1: no TTL), {0, ms, 1} held by another library. The timeouts of ARGV[8+] are named here and not in KEYS, as
-- are those of other readers in the release scripts; they share the lock's slot.
local lock, timeoutKey = KEYS[1], KEYS[2]
local field, leaseText, ownWrite, writersFirst = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local lease = tonumber(leaseText)
writers, channel, publish, prefix = KEYS[3], ARGV[6], ARGV[7], ARGV[5]
if not lease or lease < 1 then
  return redis.error_reply('ERR wheellock: rw_read needs a lease of at least 1 ms')
end
local found = redis.pcall('hget', lock, 'mode')
if type(found) == 'table' then
  local left = foreign(lock)
  return left and {0, left, 1} or found
end
local mode = tidy()
local mine = redis.call('hexists', lock, field) == 1
-- refusal returns for how long others keep the lock, if they do.
local function refusal()
  if mode == 'write' then
    if ownWrite == '' or redis.call('hexists', lock, ownWrite) == 0 then
      return {0, redis.call('pttl', lock)}
    end
  elseif mode ~= 'read' and redis.call('exists', lock) == 1 then
    return {0, redis.call('pttl', lock)} -- another sort of lock
  elseif writersFirst == '1' and redis.call('exists', writers) == 1 then
    return {0, redis.call('pttl', writers)}
  end
end
local refused = not mine and refusal()
if refused and thinned() then
  mode = redis.call('hget', lock, 'mode')
  refused = refusal()
end
if refused then
  return refused
end
-- The timeout first: by itself it is nothing, and a reader without it is dead.
if redis.call('pttl', timeoutKey) < lease then
  redis.call('set', timeoutKey, '1', 'px', leaseText)
end
local never = redis.pcall('hset', lock, field, '1')
if type(never) == 'number' then
  if not mode then
    redis.call('hset', lock, 'mode', 'read')
  end
  never = prolong(lock, lease)
end
if never then -- nobody holds a lock that would never end
  if not mine then
    redis.call('del', timeoutKey)
    redis.call('hdel', lock, field)
  end
  if not mode then
    redis.call('hdel', lock, 'mode')
  end
  return never
end
return {1, 1}
