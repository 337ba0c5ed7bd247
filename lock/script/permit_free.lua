-- Releases permits by their ids: all or none, and only once even if the request arrives several
-- times.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] the request's result, used by no other request
-- KEYS[3] the taken permits {id: deadline in epoch ms}
-- ARGV[1] the ids, 32 lower-case hexadecimal digits each, one after the other; a permit's
--         member is these 16 bytes or, from an older version, the digits
-- ARGV[2] the client's clock in epoch ms, used if TIME is refused; permits with a deadline up
--         to it are free
-- ARGV[3] channel on which free permits are published
-- ARGV[4] how long the result is remembered, in ms
-- ARGV[5] command that publishes; publish if it is not given
--
-- Answers 1 if all are free now. Otherwise nothing has changed, and it answers the indexes of the
-- ids without a taken permit, {1 for the first, ...}.
-- Full memory does not refuse the release.
-- If the message was refused, the answer is {1, the error}.
local semaphore, resultKey, taken = KEYS[1], KEYS[2], KEYS[3]
local ids, clientNow, channel, keepFor, publish = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local done = redis.call('get', resultKey)
if not done then
  local free, refused = counter(semaphore)
  if not free then
    return refused
  end
  local members, gone = {}, {}
  for i = 1, #ids / 32 do
    local member, deadline = known(taken, string.sub(ids, 32 * i - 31, 32 * i))
    if deadline and tonumber(deadline) > (clock or tonumber(clientNow)) then
      members[#members + 1] = member
    else
      gone[#gone + 1] = i
    end
  end
  redis.call('zrem', taken, '') -- fails here if ZREM is forbidden; after a first write, full memory refuses nothing
  if #gone == 0 then
    free, refused = remember('done', keepFor, 'incrby', semaphore, #members)
    if not free then
      return refused
    end
    for _, member in ipairs(members) do
      redis.call('zrem', taken, member)
    end
    return tell(1, publish, channel, string.format('%.0f', free))
  end
  done = table.concat(gone, ' ')
  redis.call('set', resultKey, done, 'px', keepFor)
end
if done == 'done' then
  return 1
end
local gone = {}
for i in string.gmatch(done, '%d+') do
  gone[#gone + 1] = tonumber(i)
end
return gone
