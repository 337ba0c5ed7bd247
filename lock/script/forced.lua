-- The fields that a force script deletes from a lock: ARGV[3+].
--
-- KEYS[1]  the lock's hash
local lock = KEYS[1]
-- found returns how many fields the lock has, and a list of fields and counts. The list has all
-- fields, but only the given ones of a lock with more than 32.
local function found()
  local fields, counts = redis.call('hlen', lock), {}
  if fields <= 32 then
    return fields, redis.call('hgetall', lock)
  end
  for i = 3, #ARGV do
    counts[#counts + 1] = ARGV[i]
    counts[#counts + 1] = redis.call('hget', lock, ARGV[i]) or '1'
  end
  return fields, counts
end
-- owned reports whether a field and its count may belong to a hold: the field ends in a number,
-- and the count is a number.
local function owned(field, count)
  return string.match(field, ':%-?%w+$') and string.match(count, '^%d+$')
end
-- delete deletes those fields of a lock with so many fields, and returns how many were there. While a
-- slot moves to another server of a Cluster, a script must not touch a key that is gone.
local function delete(fields)
  local n = 0
  for i = 3, #ARGV do
    if n < fields then
      n = n + redis.call('hdel', lock, ARGV[i])
    end
  end
  return n
end
