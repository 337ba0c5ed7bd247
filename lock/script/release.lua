-- Gives one count of a hold back, or the whole hold.
--
-- KEYS[1] the lock's hash
-- ARGV[1] field of the hold
-- ARGV[2] the count that remains; 0 releases the hold
-- ARGV[3] lease in ms that a remaining hold keeps at least, at least 1
-- ARGV[4] channel on which a release wakes waiters
-- ARGV[5] command that publishes there; publish if it is not given
--
-- Answers 1 + the number of subscribers told: released; 0 still held with the
-- remaining count; -1 the hold is gone.
-- If the message was refused, the answer is {that number, the error}.
-- A full release uses only commands that are not refused when memory is out.
local lease = tonumber(ARGV[3])
local remaining = tonumber(ARGV[2])
if not lease or lease < 1 or not remaining then
  return redis.error_reply('ERR wheellock: release needs a count and a lease of at least 1 ms')
end
if remaining > 0 then
  local there = redis.pcall('hexists', KEYS[1], ARGV[1])
  if there ~= 1 then
    -- A key of another type has no hold any more. A replica says READONLY to the
    -- write: it may not have got the hold yet.
    if there == 0 or string.find(there.err, 'WRONGTYPE', 1, true) then
      there = redis.pcall('hdel', KEYS[1], ARGV[1])
    end
    if type(there) == 'table' and not string.find(there.err, 'WRONGTYPE', 1, true) then
      return there
    end
    return -1
  end
  redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
  if redis.call('pttl', KEYS[1]) < lease then
    redis.call('pexpire', KEYS[1], ARGV[3])
  end
  return 0
end
-- Not asked afterwards: a key that is gone may not be touched while its slot
-- moves to another server of a Cluster.
local fields = redis.pcall('hlen', KEYS[1])
local gone = fields
if type(fields) == 'number' or string.find(fields.err, 'WRONGTYPE', 1, true) then
  gone = redis.pcall('hdel', KEYS[1], ARGV[1])
end
if gone ~= 1 or type(fields) ~= 'number' then
  -- A key of another type has no hold any more.
  if type(gone) == 'table' and not string.find(gone.err, 'WRONGTYPE', 1, true) then
    return gone
  end
  return -1
end
if fields == 1 then
  -- It is released, whatever becomes of the message.
  local told = redis.pcall(ARGV[5] or 'publish', ARGV[4], '0')
  if type(told) == 'table' then
    return {1, told.err}
  end
  return 1 + told
end
return 1
