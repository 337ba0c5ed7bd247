-- The fields of a lock that a force script deletes: ARGV[3+].
--
-- KEYS[1]  the lock's hash
local lock = KEYS[1]
-- found returns how many fields the lock has, and a list of fields and counts: of all, or of
-- more than 32 fields those of ARGV[3+] alone.
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
-- owned reports whether a field and its count may be a hold's: an owner, which ends in a
-- number, and a number.
local function owned(field, count)
  return string.match(field, ':%w+$') and string.match(count, '^%d+$')
end
-- delete deletes those fields and returns how many were there.
local function delete()
  local n = 0
  for i = 3, #ARGV do
    n = n + redis.call('hdel', lock, ARGV[i])
  end
  return n
end
