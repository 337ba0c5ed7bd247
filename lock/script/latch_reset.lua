-- Opens a latch whatever its count, once however often the request arrives.
--
-- KEYS[1] the latch's count; there is none while it is open
-- KEYS[2] the request's result, used by no other request
-- ARGV[1] the latch's channel
-- ARGV[2] how long the result is remembered, in ms
-- ARGV[3] command that publishes; publish if it is not given
--
-- Answers 1 done, 0 the latch was open.
-- If the message was refused, the answer is {that number, the error}.
local done = redis.call('get', KEYS[2])
if done then
  return tonumber(done)
end
local left = redis.call('get', KEYS[1])
if left and not string.match(left, '^%-?%d+$') then
  return redis.error_reply('ERR wheellock: ' .. KEYS[1] .. ' is no counter')
end
done = redis.call('del', KEYS[1])
redis.call('set', KEYS[2], done, 'px', ARGV[2])
if done == 1 then
  local told = redis.pcall(ARGV[3] or 'publish', ARGV[1], '1') -- Redisson's word for "deleted", and for "closed"
  if type(told) == 'table' then
    return {done, told.err}
  end
end
return done
