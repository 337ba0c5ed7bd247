-- Releases permits by their ids, all of them or none, once however often the
-- request arrives.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] the request's result, used by no other request
-- KEYS[3] permits that are taken {id: deadline in epoch ms}
-- ARGV[1] the ids, 32 lower-case hexadecimal digits each, one after the other; a
--         permit has the 16 bytes that they say or, of old, their text
-- ARGV[2] the client's clock in epoch ms. The server's stands in its place where it is
--         known; permits with a deadline up to it are free
-- ARGV[3] channel on which free permits are published
-- ARGV[4] how long the result is remembered, in ms
-- ARGV[5] command that publishes; publish if it is not given
--
-- Answers 1 all are free now; otherwise which ids are not those of permits that
-- are taken, {1 for the first, ...}: then nothing has changed.
-- Memory that is out does not refuse the release: its first write frees some.
-- If the message was refused, the answer is {1, the error}.
local done = redis.call('get', KEYS[2])
if not done then
  local value = redis.call('get', KEYS[1]) or '0'
  local free = string.match(value, '^%-?%d+$') and tonumber(value)
  if not free or string.format('%.0f', free + 0) ~= value then -- INCRBY comes after the first change
    return redis.error_reply('ERR wheellock: ' .. KEYS[1] .. ' is no counter')
  end
  local members, gone = {}, {}
  for i = 1, #ARGV[1] / 32 do
    local text = string.sub(ARGV[1], 32 * i - 31, 32 * i)
    local member = string.gsub(text, '%x%x', function(digits)
      return string.char(tonumber(digits, 16))
    end)
    local deadline = redis.call('zscore', KEYS[3], member)
    if not deadline then
      member, deadline = text, redis.call('zscore', KEYS[3], text)
    end
    if deadline and tonumber(deadline) > (clock or tonumber(ARGV[2])) then
      members[#members + 1] = member
    else
      gone[#gone + 1] = i
    end
  end
  if #gone == 0 then
    for _, member in ipairs(members) do
      redis.call('zrem', KEYS[3], member)
    end
    free = redis.call('incrby', KEYS[1], #members)
    redis.call('set', KEYS[2], 'done', 'px', ARGV[4])
    local told = redis.pcall(ARGV[5] or 'publish', ARGV[3], string.format('%.0f', free))
    if type(told) == 'table' then
      return {1, told.err}
    end
    return 1
  end
  done = table.concat(gone, ' ')
  redis.call('set', KEYS[2], done, 'px', ARGV[4])
end
if done == 'done' then
  return 1
end
local gone = {}
for i in string.gmatch(done, '%d+') do
  gone[#gone + 1] = tonumber(i)
end
return gone
