-- Sets the deadline of a permit, earlier or later, once however often the request
-- arrives.
--
-- KEYS[1] permits that are taken {id: deadline in epoch ms}
-- KEYS[2] the request's result, used by no other request
-- ARGV[1] the id, 32 lower-case hexadecimal digits, see permit_free
-- ARGV[2] its new deadline in epoch ms
-- ARGV[3] the client's clock in epoch ms: permits with a deadline up to it are free
-- ARGV[4] how long the result is remembered, in ms
--
-- Answers 1 done, 0 no such permit is taken.
local done = redis.call('get', KEYS[2])
if done then
  return tonumber(done)
end
done = '0'
local member = string.gsub(ARGV[1], '%x%x', function(digits)
  return string.char(tonumber(digits, 16))
end)
local deadline = redis.call('zscore', KEYS[1], member)
if not deadline then
  member, deadline = ARGV[1], redis.call('zscore', KEYS[1], ARGV[1])
end
if deadline and tonumber(deadline) > tonumber(ARGV[3]) then
  redis.call('zadd', KEYS[1], 'xx', ARGV[2], member)
  done = '1'
end
redis.call('set', KEYS[2], done, 'px', ARGV[4])
return tonumber(done)
