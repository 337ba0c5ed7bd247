-- Adds permits to a semaphore, once however often the request arrives.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] the request's result, used by no other request
-- ARGV[1] how many permits; fewer than 0 takes some away, whether free or not
-- ARGV[2] channel on which free permits are published
-- ARGV[3] how long the result is remembered, in ms
-- ARGV[4] command that publishes; publish if it is not given
--
-- Answers 1 done; 0 refused, because there would be more than 2^31-1.
-- If the message was refused, the answer is {that number, the error}.
local done = redis.call('get', KEYS[2])
if done then
  return tonumber(done)
end
local value = redis.call('get', KEYS[1]) or '0'
local free = string.match(value, '^%-?%d+$') and tonumber(value)
if not free then
  return redis.error_reply('ERR wheellock: ' .. KEYS[1] .. ' is no counter')
end
done = '0'
if free + tonumber(ARGV[1]) <= 2147483647 then
  free = redis.call('incrby', KEYS[1], ARGV[1])
  done = '1'
end
redis.call('set', KEYS[2], done, 'px', ARGV[3])
if done == '1' and tonumber(ARGV[1]) > 0 then
  local told = redis.pcall(ARGV[4] or 'publish', ARGV[2], string.format('%.0f', free))
  if type(told) == 'table' then
    return {1, told.err}
  end
end
return tonumber(done)
