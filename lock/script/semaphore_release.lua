-- Releases permits of a semaphore that exists, once however often the request
-- arrives. One that need not exist is given permits by semaphore_add.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] the request's result, used by no other request
-- ARGV[1] how many permits, at least 0
-- ARGV[2] channel on which free permits are published
-- ARGV[3] how long the result is remembered, in ms
-- ARGV[4] command that publishes; publish if it is not given
--
-- Answers 1 done; 0 there is no such semaphore; -1 refused, because there would be
-- more than 2^31-1.
-- If the message was refused, the answer is {that number, the error}.
local done = redis.call('get', KEYS[2])
if done then
  return tonumber(done)
end
local value = redis.call('get', KEYS[1])
local free = string.match(value or '0', '^%-?%d+$') and tonumber(value or '0')
if not free then
  return redis.error_reply('ERR wheellock: ' .. KEYS[1] .. ' is no counter')
end
local more = tonumber(ARGV[1])
done = '0'
if value and free + more > 2147483647 then
  done = '-1'
elseif value then
  if more > 0 then
    free = redis.call('incrby', KEYS[1], ARGV[1])
  end
  done = '1'
end
redis.call('set', KEYS[2], done, 'px', ARGV[3])
if done == '1' and more > 0 then
  local told = redis.pcall(ARGV[4] or 'publish', ARGV[2], string.format('%.0f', free))
  if type(told) == 'table' then
    return {1, told.err}
  end
end
return tonumber(done)
