-- Reads a lock.
--
-- KEYS[1] the lock's hash
--
-- Answers {pttl, field, count, field, count, ...}; pttl is -2 if there is no
-- lock and -1 if it has no TTL. {pttl, 1} is the lock of another library.
local answer = {redis.call('pttl', KEYS[1])}
local fields = redis.pcall('hgetall', KEYS[1])
if fields.err then
  -- A string with a TTL is the lock of another library, as SET NX PX makes it.
  if answer[1] >= 0 and type(redis.pcall('get', KEYS[1])) == 'string' then
    return {answer[1], 1}
  end
  return fields
end
for _, v in ipairs(fields) do
  answer[#answer + 1] = v
end
return answer
