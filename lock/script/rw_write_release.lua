-- Gives one count of a write hold back, or the whole hold.
--
-- KEYS[1] the lock's hash
-- KEYS[2] the writers that wait {writer: 1}
-- ARGV[1] field of the hold
-- ARGV[2] the count that remains; 0 releases the hold
-- ARGV[3] lease in ms that a remaining hold keeps at least, at least 1
-- ARGV[4] channel on which a release wakes waiters
-- ARGV[5] what the names of timeouts begin with
-- ARGV[6] command that publishes; publish if it is not given
--
-- Answers 1 + the number of subscribers told: released; 0 still held with the
-- remaining count; -1 the hold is gone.
-- If its owner reads too, the lock is held for reading from now on. Readers have
-- their turn before writers that wait keep them out again.
local lease = tonumber(ARGV[3])
local remaining = tonumber(ARGV[2])
if not lease or lease < 1 or not remaining then
  return redis.error_reply('ERR wheellock: rw_write_release needs a count and a lease of at least 1 ms')
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  redis.call('hdel', KEYS[1], ARGV[1]) -- a replica says READONLY: it may not have got the hold yet
  return -1
end
if remaining > 0 then
  redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
  if redis.call('pttl', KEYS[1]) < lease then
    redis.call('pexpire', KEYS[1], lease)
  end
  return 0
end
-- What remains is looked at before anything is changed: a timeout that has gone
-- ahead of the lock, while their slot moves to another server of a Cluster, is an
-- error that ends the script.
local longest = 0
local fields = redis.call('hgetall', KEYS[1])
for i = 1, #fields, 2 do
  for n = math.min(fields[i] ~= ARGV[1] and tonumber(fields[i + 1]) or 0, 1000), 1, -1 do -- what somebody else put there may be anything
    longest = math.max(longest, redis.call('pttl', ARGV[5] .. ':' .. fields[i] .. ':rwlock_timeout:' .. n))
  end
end
redis.call('hdel', KEYS[1], ARGV[1]) -- a write, so that memory that is out does not refuse what follows
if longest > 0 then
  redis.call('hset', KEYS[1], 'mode', 'read')
  redis.call('pexpire', KEYS[1], longest)
else
  redis.call('del', KEYS[1])
end
redis.call('del', KEYS[2])
local told = redis.pcall(ARGV[6] or 'publish', ARGV[4], '1') -- Redisson's word for "all waiters, readers too"
return 1 + (type(told) == 'number' and told or 0)
