-- Gives one count of a read hold back, or the whole hold.
--
-- KEYS[1] the lock's hash
-- KEYS[2] the hold's timeout
-- ARGV[1] field of the hold
-- ARGV[2] the count that remains; 0 releases the hold
-- ARGV[3] lease in ms that a remaining hold keeps at least, at least 1
-- ARGV[4] channel on which a release wakes waiters
-- ARGV[5] what the names of timeouts begin with
-- ARGV[6] command that publishes; publish if it is not given
--
-- Answers 1 + the number of subscribers told: released; 0 still held with the
-- remaining count; -1 the hold is gone.
-- The lock stays for as long as the longest of the holds that remain: those of
-- readers as their timeouts say, Redisson's among them, that of a writer, whose
-- reader this was, unchanged.
-- A full release uses only commands that are not refused when memory is out.
local lease = tonumber(ARGV[3])
local remaining = tonumber(ARGV[2])
if not lease or lease < 1 or not remaining then
  return redis.error_reply('ERR wheellock: rw_read_release needs a count and a lease of at least 1 ms')
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  redis.call('hdel', KEYS[1], ARGV[1]) -- a replica says READONLY: it may not have got the hold yet
  redis.call('del', KEYS[2])
  return -1
end
if remaining > 0 then
  if redis.call('exists', KEYS[2]) == 0 then
    return -1
  end
  redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
  for i = 1, 2 do
    if redis.call('pttl', KEYS[i]) < lease then
      redis.call('pexpire', KEYS[i], lease)
    end
  end
  return 0
end
-- What remains is looked at before anything is changed: a timeout that has gone
-- ahead of the lock, while their slot moves to another server of a Cluster, is an
-- error that ends the script.
local longest = 0
local reading = redis.call('hget', KEYS[1], 'mode') ~= 'write'
if reading then
  local fields = redis.call('hgetall', KEYS[1])
  for i = 1, #fields, 2 do
    for n = math.min(fields[i] ~= ARGV[1] and tonumber(fields[i + 1]) or 0, 1000), 1, -1 do -- what somebody else put there may be anything
      local left = redis.call('pttl', ARGV[5] .. ':' .. fields[i] .. ':rwlock_timeout:' .. n)
      if left == -1 then
        left = math.huge -- somebody wants no end
      end
      longest = math.max(longest, left)
    end
  end
end
redis.call('hdel', KEYS[1], ARGV[1])
redis.call('del', KEYS[2])
if not reading or longest == math.huge then
  return 1
end
if longest > 0 then
  redis.call('pexpire', KEYS[1], longest)
  return 1
end
redis.call('del', KEYS[1])
local told = redis.pcall(ARGV[6] or 'publish', ARGV[4], '0')
return 1 + (type(told) == 'number' and told or 0)
