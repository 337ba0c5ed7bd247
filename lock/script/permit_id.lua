-- Permits by the ids that users have.
--
-- known returns the member that is the permit with an id of 32 lower-case hexadecimal digits,
-- and its deadline as text, false if it is not taken. A permit has the 16 bytes that the
-- digits say or, of old, their text.
local function known(key, id)
  local member = string.gsub(id, '%x%x', function(digits)
    return string.char(tonumber(digits, 16))
  end)
  local deadline = redis.call('zscore', key, member)
  if deadline then
    return member, deadline
  end
  return id, redis.call('zscore', key, id)
end
