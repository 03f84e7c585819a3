import { expect, spyOn, test } from 'bun:test'
import { several, startTestGateway } from '../../support/gateways/gateway.ts'
import { startOwnedPool } from '../../support/pools/owned-pool.ts'
import { fixture } from '../../support/run/fixture.ts'

const own = { owner: 'A', visibility: 'private', privacyClass: 'private' } as const

const gateway = await fixture(startTestGateway())
const pool = await fixture(
  startOwnedPool(gateway, ['A'], {
    one: { ...own, fake: { models: ['single', 'pooled'] } },
    two: { ...own, fake: { models: ['pooled'] } },
  }),
)

// Another process's hashes cannot be counted here.
test.skipIf(several)(
  '§29: of a prompt for a model with one route nothing is hashed; for one with two, once a block',
  async () => {
    // The runtime's own function, counted: it still hashes.
    const hashes = spyOn(Bun.hash, 'wyhash')
    try {
      const content = 'x'.repeat(10 * 1_024)
      const asked = async (model: string, more: object = {}) => {
        hashes.mockClear()
        const { key } = pool.customer('A')
        const response = await gateway.chat(key, { model, messages: [{ role: 'user', content }], ...more })
        expect(response.status).toBe(200)
        await response.text()
        return hashes.mock.calls.length
      }
      expect(await asked('single')).toBe(0)
      expect(await asked('single', { stream: true })).toBe(0)
      // Ten blocks, and the seed.
      expect(await asked('pooled')).toBe(11)
      expect(await asked('pooled', { stream: true })).toBe(11)
    } finally {
      hashes.mockRestore()
    }
  },
)
