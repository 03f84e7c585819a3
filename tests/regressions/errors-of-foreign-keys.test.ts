import { expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { createAddressHash } from '../../src/actors/audit/address-hash.ts'
import { createReceiptMacs, receiptSubject } from '../../src/actors/log/receipt-macs.ts'
import { peerProof } from '../../src/actors/tunnels/peer-proof.ts'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { hashToken } from '../../src/secrets.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: a request failed with `POINT_IS_NOT_ON_CURVE` after a node had shown evidence with a damaged certificate.
 * Cause: an elliptic-curve key that WebCrypto refuses leaves its error in the thread, and the next keyed hash of Bun, by which tokens are known, throws
 * it.
 * Fix: a keyed hash that throws is made again.
 */
async function refuseForeignKey(): Promise<void> {
  const offCurve = Buffer.concat([Buffer.from([4]), Buffer.alloc(64, 7)])
  const read = crypto.subtle.importKey('raw', offCurve, { name: 'ECDSA', namedCurve: 'P-256' }, false, ['verify'])
  expect(await read.then(() => 'read').catch(() => 'refused')).toBe('refused')
}

const gateway = await fixture(startTestGateway())
const node = await fixture(startFakeNode({ models: ['m'] }))
const { customerId, key } = await gateway.customer()
await gateway.node(node.url, { customerId })

test('§4: a key that cannot be read fails nobody else’s request', async () => {
  for (let turn = 0; turn < 3; turn++) {
    await refuseForeignKey()
    const response = await gateway.chat(key, { model: 'm', messages: [{ role: 'user', content: 'hi' }] })
    expect([response.status, (await response.text()).includes('"choices"')]).toEqual([200, true])
  }
})

test('§4: nor a hash of a token, of an address, of a peer’s request or of a receipt', async () => {
  const seed = Buffer.alloc(32, 1).toString('hex')
  const macs = createReceiptMacs([seed], () => 0)
  const subject = receiptSubject({ hash: `0x${'ab'.repeat(32)}`, customerId: 'cus_a' })
  const mac = macs.of(subject)
  const request = { replicaId: 'r', method: 'GET', path: '/', head: '', bodyHash: '0'.repeat(64) }
  const each: readonly (readonly [() => unknown, unknown])[] = [
    [() => hashToken('pepper', 'token'), createHmac('sha256', 'pepper').update('token').digest()],
    [
      () => createAddressHash('key')('10.0.0.1'),
      createHmac('sha256', 'key')
        .update('ip\0' + '10.0.0.1')
        .digest('hex')
        .slice(0, 12),
    ],
    [() => peerProof('secret', request, 0).startsWith('ts=0,nonce='), true],
    [() => macs.of(subject), mac],
    [() => createReceiptMacs([seed], () => 0).of(subject), mac],
  ]
  for (const [hash, expected] of each) {
    await refuseForeignKey()
    expect(hash()).toEqual(expected)
  }
})
