import type { Browser } from 'playwright-core'
import type { TestGateway } from '../gateways/gateway.ts'
import { type ConsolePage, openConsole } from './console.ts'

type Role = keyof TestGateway['tokens']

const usualSize = { width: 1280, height: 860 } as const

/**
 * A page for each role at one gateway, opened when a test first asks for it: tests that go from view to view have one together, since
 * a page takes more than a second of processor time. The page of a test that fails is closed, and the next test gets another.
 */
export class SharedConsoles {
  private readonly opened = new Map<Role, ConsolePage>()

  constructor(
    private readonly browser: Browser,
    private readonly gateway: Pick<TestGateway, 'url' | 'tokens'>,
  ) {}

  /** `look` begins as on a page that was just opened: signed in, at the pool, and no view shows anything of a test before. */
  async as(role: Role, look: (console: ConsolePage) => Promise<void>): Promise<void> {
    const known = this.opened.get(role)
    this.opened.delete(role)
    const console = await (known === undefined ? this.open(role) : this.anew(known))
    try {
      await look(console)
    } catch (error) {
      await console.close()
      throw error
    }
    this.opened.set(role, console)
  }

  async close(): Promise<void> {
    await Promise.all([...this.opened.values()].map((console) => console.close()))
  }

  private async open(role: Role): Promise<ConsolePage> {
    const console = await openConsole(this.browser, this.gateway.url)
    await console.signIn(this.gateway.tokens[role])
    return console
  }

  /** A view that is left keeps nothing: through another one, the pool too is opened anew. */
  private async anew(console: ConsolePage): Promise<ConsolePage> {
    const { page } = console
    await page.setViewportSize(usualSize)
    for (const [view, title] of [
      ['models', 'Models'],
      ['pool', 'Pool'],
    ] as const) {
      await page.evaluate(`location.hash = '#${view}'`)
      await page.getByRole('heading', { level: 1, name: title }).waitFor()
    }
    return console
  }
}
