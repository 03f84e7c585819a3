import { expect, test } from 'bun:test'
import { gatewaysOf } from '../../src/discovery/gateways.ts'

const announced = (text: readonly (readonly [string, string])[], addresses = ['192.168.1.9']) => ({
  instance: 'box._penstock._tcp.local',
  port: 7070,
  addresses,
  text: new Map(text),
})
const urlsOf = (...urls: readonly string[]) =>
  gatewaysOf(urls.map((url) => announced([['url', url]]))).map(({ url }) => url)

test('§39: a gateway is at the URL that it announces, or where it listens, and each is found once', () => {
  expect(urlsOf('https://llm.example.com', 'https://LLM.example.com/', 'https://a.example/base/')).toEqual([
    'https://llm.example.com',
    'https://a.example/base',
  ])
  const listens = gatewaysOf([announced([['v', '1']], ['127.0.0.1', '192.168.1.9']), announced([], ['127.0.0.1'])])
  expect(listens.map(({ url }) => url)).toEqual(['http://192.168.1.9:7070', 'http://127.0.0.1:7070'])
})

test('§39: an announced URL can neither steer the terminal that shows it nor look like another', () => {
  for (const url of urlsOf(
    'http://a.example/\u001b[2J\u001b[1Ahttps://yours.example',
    'http://a.example/\u009b2J',
    'https://yours.example\u0007.evil.example',
    'https://gаteway.example/\u202egnp',
  )) {
    expect(url).toMatch(/^[\x21-\x7e]+$/)
  }
  expect(urlsOf('https://yours.example@evil.example', 'https://a:b@evil.example', 'ftp://a.example')).toEqual([])
  expect(urlsOf('https://a.example/?x=1', 'https://a.example/#x', 'https://a b', 'https://')).toEqual([])
})
