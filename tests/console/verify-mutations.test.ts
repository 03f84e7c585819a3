import { expect, test } from 'bun:test'
import { hasBrowser, launchBrowser } from '../support/console/console.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitLimitMs } from '../support/run/limits.ts'
import { mutations, rememberedIn } from '../support/verdicts/mutations.ts'

const gateway = await fixture(startTestGateway())
const browser = await fixture(launchBrowser())

/** What the page takes, by the ids of its fields. */
const fieldsOf = ({ known }: ReturnType<typeof mutations>[number]) => ({
  'log-keys': (known.log_keys ?? []).join('\n'),
  'node-keys': (known.node_keys ?? []).join('\n'),
  'witness-keys': (known.witnesses ?? []).join('\n'),
  witnesses: String(known.least ?? 0),
  policy: known.policy ?? '',
  roots: (known.roots ?? []).join('\n'),
})

test.skipIf(!hasBrowser)('§36: the page gives every row of the table of mutations its verdict', async () => {
  const page = await (await browser.newContext()).newPage()
  page.setDefaultTimeout(waitLimitMs)
  const faults: string[] = []
  page.on('pageerror', (error) => faults.push(error.message))
  await page.goto(`${gateway.url}/verify`, { waitUntil: 'networkidle' })
  const rows = mutations().map((one) => ({ text: one.text, fields: fieldsOf(one), kept: rememberedIn(one.known) }))
  const shown = await page.evaluate(async (all) => {
    const heads: string[] = []
    for (const { text, fields, kept } of all) {
      localStorage.clear()
      if (kept !== null) localStorage.setItem('penstock-public-logs', kept)
      for (const [id, value] of Object.entries(fields)) (document.getElementById(id) as HTMLInputElement).value = value
      const place = document.getElementById('verdicts')
      if (place === null) throw new Error('the page has no place for verdicts')
      place.replaceChildren()
      const said = new Promise<void>((resolve) => {
        const watch = new MutationObserver(() => {
          if (place.childElementCount === 0) return
          watch.disconnect()
          resolve()
        })
        watch.observe(place, { childList: true })
      })
      const dataTransfer = new DataTransfer()
      dataTransfer.items.add(new File([text], 'proof.json'))
      document.body.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }))
      await said
      heads.push([...place.querySelectorAll('h2')].map(({ textContent }) => textContent).join('\n'))
    }
    return heads
  }, rows)
  // A file that holds nothing to verify has no heading.
  const valid = shown.map((heads) => heads !== '' && heads.split('\n').every((head) => head.endsWith(': valid')))
  expect(mutations().map(({ name }, at) => [name, valid[at]] as const)).toEqual(
    mutations().map((one) => [one.name, one.valid] as const),
  )
  expect(faults).toEqual([])
  await page.context().close()
})
