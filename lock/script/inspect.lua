-- Reads a lock.
--
-- KEYS[1] the lock's hash
--
-- Answers {pttl, field, count, field, count, ...}; pttl is -2 if there is no lock and -1 if it
-- has no TTL. The answer {pttl, 1} is the lock of another library. If there are more than 1,024
-- fields, it answers 1,024 of them, drawn at random, and the mode of a read-write lock. Fields
-- are cut at 8,192 bytes, counts at 1,024.
local lock = KEYS[1]
local answer = {redis.call('pttl', lock)}
local fields, n = redis.pcall('hlen', lock), 1024
if type(fields) == 'table' then
  local left = foreign(lock)
  return left and {left, 1} or fields
end
local some
if fields <= n then
  some = redis.call('hgetall', lock)
else
  some = redis.pcall('hrandfield', lock, n, 'withvalues')
  if some.err then -- before Redis 6.2
    some = redis.call('hscan', lock, '0', 'count', n)[2]
  end
  local mode = redis.call('hget', lock, 'mode')
  if mode then
    answer[2], answer[3] = 'mode', string.sub(mode, 1, 1024)
  end
end
for i = 1, math.min(#some, 2 * n), 2 do
  if some[i] ~= 'mode' or fields <= n then
    answer[#answer + 1] = string.sub(some[i], 1, 8192)
    answer[#answer + 1] = string.sub(some[i + 1], 1, 1024)
  end
end
return answer
