import { expect, test } from 'bun:test'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'

/**
 * A part of a view that appeared while the address moved on listened too late: it showed the address before, until the next one.
 * Here the address moves as soon as the nodes are on the page, before anything else of the page runs.
 */
const movesOn = `new MutationObserver((_, watching) => {
  if (document.querySelector('.map-choices') === null) return
  watching.disconnect()
  history.replaceState(null, '', '#pool?form=map')
  dispatchEvent(new HashChangeEvent('hashchange'))
}).observe(document, { subtree: true, childList: true })`

test.skipIf(!hasBrowser)('an address that moves on while a part of the page appears is not missed', async () => {
  const gateway = await startTestGateway()
  const node = startFakeNode({ models: ['m'] })
  await gateway.node(node.url)
  const browser = await launchBrowser()
  const console = await openConsole(browser, gateway.url)
  await console.page.evaluate(movesOn)
  await console.signIn(gateway.tokens.operator)
  await console.page.getByRole('region', { name: /^Map of the nodes/ }).waitFor()
  expect(console.faults).toEqual([])
  await browser.close()
  node.stop()
  await gateway.stop()
})
