/** Asks once with each key, all at once, for a large answer, reads it and prints how each was answered. */
const { URL: url = '', KEYS: keys = '' } = process.env

async function ask(key: string): Promise<string> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'large', messages: [{ role: 'user', content: 'hi' }] }),
  })
  let bytes = 0
  for await (const piece of response.body ?? []) bytes += piece.length
  return response.status === 200 ? (bytes > 1_000_000 ? 'answered' : 'broken') : String(response.status)
}

const ends = await Promise.all(keys.split(',').map((key) => ask(key).catch(() => 'broken')))
const count: Record<string, number> = {}
for (const end of ends) count[end] = (count[end] ?? 0) + 1
console.log(`ends ${JSON.stringify(count)}`)

export {}
