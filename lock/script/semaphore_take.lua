-- Takes permits of a semaphore, once however often the request arrives.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] the request's result, used by no other request
-- ARGV[1] how many permits, at least 1, or "all" for all free ones
-- ARGV[2] how long the result is remembered, in ms
--
-- Answers {taken, free}: the number of taken permits, 0 if there were too few, and the number of
-- free ones now. Without a counter there are no permits.
local semaphore, resultKey, number, keepFor = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local free, refused = counter(semaphore)
if not free then
  return refused
end
local taken = redis.call('get', resultKey)
if not taken then
  local wanted = number
  if wanted == 'all' then
    wanted = string.format('%.0f', math.max(free, 0))
  end
  if wanted ~= '0' and free >= tonumber(wanted) then
    free, refused = remember(wanted, keepFor, 'decrby', semaphore, wanted)
    if not free then
      return refused
    end
    taken = wanted
  else
    redis.call('set', resultKey, '0', 'px', keepFor)
    taken = '0'
  end
end
return {tonumber(taken), free}
