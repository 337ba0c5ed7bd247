-- Takes a read-write lock for a new read hold, or confirms that an earlier copy of the request
-- did.
--
-- KEYS[1]  the lock's hash {mode: read or write, field: count}
-- KEYS[2]  the hold's timeout: present for as long as the hold lasts
-- KEYS[3]  the waiting writers {writer: 1}
-- ARGV[1]  field of the hold, never used before
-- ARGV[2]  lease in ms, at least 1
-- ARGV[3]  field of a write hold of the same owner, "" if there is none
-- ARGV[4]  1: waiting writers go first, 0: they do not
-- ARGV[5]  prefix of the names of timeouts
-- ARGV[6]  channel on which a release wakes waiters
-- ARGV[7]  command that publishes there
-- ARGV[8+] fields of the client's earlier attempts with an unknown outcome
--
-- Answers {1, 1} acquired; {0, ms} a writer holds the lock or waits for it, for ms more (-1: no
-- TTL); {0, ms, 1} another library holds it. The script makes the names of the timeouts of
-- ARGV[8+], which are not in KEYS but in the slot of the lock. The release scripts do the same
-- for the timeouts of other readers.
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
-- refusal returns the answer if others keep the lock, nil if they do not.
local function refusal()
  if mode == 'write' then
    if ownWrite == '' or redis.call('hexists', lock, ownWrite) == 0 then
      return {0, redis.call('pttl', lock)}
    end
  elseif mode ~= 'read' and redis.call('exists', lock) == 1 then
    return {0, redis.call('pttl', lock)} -- another kind of lock
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
-- The timeout comes first: alone it means nothing, but a reader without a timeout counts as dead.
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
if never then -- no hold without an end
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
