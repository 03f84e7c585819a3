import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Discovered } from '../../src/protocol/wire/nodes/discovery.ts'
import { waitFor } from '../support/gateways/gateway.ts'
import { agent, Home, minuteMs, penstock, program, says, wordsOf } from '../support/gateways/home.ts'
import { type HomeNetwork, makeHomeNetwork } from '../support/gateways/home-network.ts'

const computers = ['gateway', 'attic', 'shed', 'phone', 'middle'] as const
type Computer = (typeof computers)[number]
const made = makeHomeNetwork(`psh${process.pid}`, computers)
const refusal = typeof made === 'string' ? made : ''
describe.skipIf(refusal !== '')(`§39: a home of five computers ${refusal && `(${refusal})`}`.trim(), () => {
  const net = made as HomeNetwork<Computer>
  let home: Home<Computer>

  beforeAll(async () => {
    home = new Home(net, computers)
    await home.beginGateway({ SVC_MDNS: 'true' })
    const listen = (on: Computer) => `${on === 'attic' ? '127.0.0.1' : '0.0.0.0'}:8000`
    for (const on of ['attic', 'shed'] as const) {
      const served = ['--model', `of-${on}`, '--listen', listen(on), '--speaks', 'vllm', '--json']
      await home.begin(on, penstock('fake-node', ...served), /"url"/)
    }
  }, 2 * minuteMs)
  afterAll(async () => {
    await home?.stop()
    if (typeof made !== 'string') made.remove()
  }, minuteMs)

  test('an agent finds the gateway by its announcement, both show the same words, and a phone chats with its model', async () => {
    const person = home.sit('attic', agent())
    await says(person, /announces itself as http:\/\/10\.214\.0\.1:7070\.[\s\S]*no TLS[\s\S]*\[y\/N\]/)
    person.type('y\r')
    const words = await wordsOf(person)
    const list = await home.run('gateway', penstock('nodes', 'join'))
    expect(list.out).toContain(words)
    const confirmed = await home.run('gateway', penstock('nodes', 'join', ...words.split(' '), '--name', 'attic'))
    expect([confirmed.code, confirmed.err]).toEqual([0, ''])
    person.type('y\r')
    await says(person, /This node is node_\w+/)
    const body = { model: 'of-attic', messages: [{ role: 'user', content: 'hi' }] }
    await waitFor(
      'an answer on the phone',
      async () => (await home.chat('phone', body)).out.includes('"choices"'),
      minuteMs,
    )
    person.type('\u0003')
    expect(await person.exited).toBe(0)
  })

  test('somebody in the middle is caught by the words, on both sides', async () => {
    const middle = net.addressOf('middle')
    await home.begin('middle', [...program('join-middle.ts'), home.gatewayUrl, middle, '7070'], /relays/)
    const person = home.sit('shed', agent('--no-discover', '--gateway', `http://${middle}:7070`, '--insecure'))
    const words = await wordsOf(person)
    const list = await home.run('gateway', penstock('nodes', 'join'))
    // The one in the middle waits there, with other words.
    expect(list.out).toContain('join_')
    expect(list.out).not.toContain(words)
    const typed = await home.run('gateway', penstock('nodes', 'join', ...words.split(' ')))
    expect([typed.code, typed.err]).toEqual([1, expect.stringContaining('somebody stands between')])
    person.type('n\r')
    expect(await person.exited).toBe(1)
    expect(person.text()).toContain('The words differ')
  })

  test('the person may say first that the words are the same, by the address of the gateway, and the operator after that', async () => {
    const person = home.sit('shed', agent('--no-discover', '--gateway', home.gatewayUrl, '--insecure'))
    const words = await wordsOf(person)
    person.type('y\r')
    const waits = await home.run('gateway', penstock('nodes', 'join'))
    expect(waits.out).toContain(words)
    expect(person.text()).not.toContain('This node is')
    const confirmed = await home.run('gateway', penstock('nodes', 'join', ...words.split(' '), '--name', 'shed'))
    expect([confirmed.code, confirmed.err]).toEqual([0, ''])
    await says(person, /This node is node_\w+/)
    const list = await home.run('gateway', penstock('nodes', 'list'))
    expect(list.out).toContain('shed')
    person.type('\u0003')
    expect(await person.exited).toBe(0)
  })

  test('a range finds the server of the shed and nothing else; so does its announcement', async () => {
    const shed = { url: `http://${net.addressOf('shed')}:8000`, runtime_kind: 'vllm', models: ['of-shed'] }
    const range = await home.run('gateway', penstock('nodes', 'discover', '10.214.0.0/28', '--json'))
    expect([range.code, range.err]).toEqual([0, ''])
    expect((JSON.parse(range.out) as Discovered).servers).toMatchObject([shed])
    const before = await home.run('gateway', penstock('nodes', 'discover', '--json'))
    expect((JSON.parse(before.out) as Discovered).servers).toEqual([])
    await home.begin('shed', [...program('announcing-server.ts'), net.addressOf('shed'), '8000'], /announces/)
    const heard = await home.run('gateway', penstock('nodes', 'discover', '--json'))
    expect((JSON.parse(heard.out) as Discovered).servers).toMatchObject([shed])
  })

  test('nothing leads out of the home', async () => {
    for (const computer of computers) expect(net.interfaces(computer).toSorted()).toEqual(['lan', 'lo'])
    const out = await home.run('gateway', ['curl', '-sS', '--max-time', '2', 'http://192.0.2.1/'])
    expect(out.code).not.toBe(0)
  })
})

test('this machine makes network namespaces, or says here why not', () => {
  expect(typeof made === 'string' ? made : 'made').not.toBe('')
})
