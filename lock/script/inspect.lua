-- Reads a lock.
--
-- KEYS[1] the lock's hash
--
-- Answers {pttl, field, count, field, count, ...}; pttl is -2 if there is no
-- lock and -1 if it has no TTL.
local answer = {redis.call('pttl', KEYS[1])}
for _, v in ipairs(redis.call('hgetall', KEYS[1])) do
  answer[#answer + 1] = v
end
return answer
