import { expect, test } from 'bun:test'
import type { Answer } from 'dns-packet'
import { announcementsMax, ServiceRecords } from '../../src/discovery/service-records.ts'

const type = '_penstock._tcp.local'
const instance = `box.${type}`
const pointer: Answer = { type: 'PTR', name: type, ttl: 120, data: instance }
const place: Answer = { type: 'SRV', name: instance, ttl: 120, data: { port: 7070, target: 'Box.local' } }
const words: Answer = {
  type: 'TXT',
  name: instance,
  ttl: 120,
  data: [Buffer.from('v=1'), Buffer.from('url=https://a.example')],
}
const address: Answer = { type: 'A', name: 'box.local', ttl: 120, data: '192.0.2.7' }

function after(...packets: readonly Answer[][]): ServiceRecords {
  const records = new ServiceRecords(type)
  for (const packet of packets) records.take(packet)
  return records
}

test('§39: records are put together in whatever order and packets they come', () => {
  const found = [
    {
      instance,
      port: 7070,
      addresses: ['192.0.2.7'],
      text: new Map([
        ['v', '1'],
        ['url', 'https://a.example'],
      ]),
    },
  ]
  expect(after([pointer, place, words, address]).found()).toEqual(found)
  expect(after([address], [words], [place]).found()).toEqual(found)
})

test('§39: what is missing is asked for by its name, and what cannot be reached is not found', () => {
  const first = after([pointer])
  expect(first.questions()).toEqual([
    { name: instance, type: 'SRV' },
    { name: instance, type: 'TXT' },
  ])
  first.take([place])
  expect(first.questions()).toEqual([{ name: 'box.local', type: 'A' }])
  expect(first.found()).toEqual([])
  first.take([address])
  expect([first.questions().length, first.found().length]).toEqual([0, 1])
  expect(after([place, address, { ...pointer, ttl: 0 }]).found()).toEqual([])
})

test('§39: a network that announces without end fills no memory, and other services are left alone', () => {
  const many = Array.from({ length: 10 * announcementsMax }, (_, at): Answer[] => [
    { ...place, name: `a${at}.${type}`, data: { port: 1, target: `a${at}.local` } } as Answer,
    { type: 'A', name: `a${at}.local`, ttl: 1, data: '192.0.2.1' },
  ])
  expect(after(many.flat()).found().length).toBe(announcementsMax)
  const lines = Array.from({ length: 1_000 }, (_, at) => Buffer.from(`k${at}=v`))
  const [long] = after([place, address, { ...words, data: lines } as Answer]).found()
  expect(long?.text.size).toBe(16)
  expect(after([{ ...place, name: 'x._http._tcp.local' } as Answer, address]).found()).toEqual([])
  const addresses = Array.from(
    { length: 300 },
    (_, at): Answer => ({ ...address, data: `192.0.2.${at % 256}` }) as Answer,
  )
  expect(after([place, ...addresses]).found()[0]?.addresses.length).toBe(8)
})
