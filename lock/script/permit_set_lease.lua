-- Sets the deadline of a permit, earlier or later, once however often the request
-- arrives.
--
-- KEYS[1] the taken permits {id: deadline in epoch ms}
-- KEYS[2] the request's result, used by no other request
-- ARGV[1] the id, 32 lower-case hexadecimal digits, see permit_free
-- ARGV[2] its new deadline in epoch ms, by the client's clock
-- ARGV[3] the client's clock in epoch ms, used if TIME is refused; permits with a deadline up
--         to it are free
-- ARGV[4] how long the result is remembered, in ms
--
-- Answers 1 done, 0 no such permit is taken.
local taken, resultKey = KEYS[1], KEYS[2]
local id, clientDeadline, clientNow, keepFor = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local member, deadline = known(taken, id)
local now = clock or tonumber(clientNow)
redis.call('del', resultKey) -- after a first write, full memory refuses nothing more
if deadline and tonumber(deadline) > now then
  local set, refused = remember('1', keepFor, 'zadd', taken, 'xx', string.format('%.0f', now + clientDeadline - clientNow), member)
  return set and 1 or refused
end
redis.call('set', resultKey, '0', 'px', keepFor)
return 0
