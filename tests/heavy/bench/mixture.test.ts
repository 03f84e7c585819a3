import { expect, test } from 'bun:test'
import { mixtureTable, timedAsk, timeRounds } from '../../../bench/mixture.ts'
import { expert, messages, startMixturePool, vote } from '../../support/pools/mixture-pool.ts'

test('a mixture is measured against its slowest expert, the ways in turn', async () => {
  const pool = await startMixturePool()
  try {
    pool.nodes.a.setAnswer({ firstTokenMs: 20 })
    pool.nodes.b.setAnswer({ firstTokenMs: 40 })
    const url = `${pool.gateway.url}/v1/api/chat/completions`
    const mixture = vote(expert('a'), expert('b'))
    const timed = await timeRounds(
      {
        direct: () => timedAsk(`${pool.nodes.b.url}/v1/chat/completions`, 'none', { model: 'b', messages }),
        vote: () => timedAsk(url, pool.customer.key, { model: 'council', messages, svc: { mixture } }),
      },
      3,
    )
    expect(timed.map(({ name, times }) => [name, times.length])).toEqual([
      ['direct', 3],
      ['vote', 3],
    ])
    expect(timed.flatMap(({ times }) => times).every((ms) => ms >= 39)).toBe(true)
    expect(pool.calls()).toEqual({ a: 3, b: 6 })
    const wrong = { model: 'council', messages, svc: { mixture: {} } }
    await expect(timedAsk(url, pool.customer.key, wrong)).rejects.toThrow('answered 400')
  } finally {
    await pool.stop()
  }
})

test('the overhead is the difference of the medians to the first row', () => {
  const table = mixtureTable([
    { name: 'direct', times: [200, 201, 260] },
    { name: 'vote', times: [204, 203, 205] },
    { name: 'synthesize', times: [300, 207, 208] },
  ])
  const cells = table.split('\n').map((line) => line.split('|').map((cell) => cell.trim()))
  const row = (name: string) => cells.find(([, first]) => first === name)?.slice(2, -1)
  expect(row('direct')).toEqual(['201.00', '260.00', '', ''])
  expect(row('vote')).toEqual(['204.00', '205.00', '3.00', 'yes'])
  expect(row('synthesize')).toEqual(['208.00', '300.00', '7.00', '**no**'])
})
