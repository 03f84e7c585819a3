import type { Locator, Page } from 'playwright-core'

/** No form has so many places where the keyboard stops. */
const stopsMax = 40

/** Runs in the page: every press of a pointer is a click. */
const counting = `window.clicks = 0
addEventListener('pointerdown', () => { window.clicks += 1 }, true)`

/** What a person does in the console, task by task from its first page. The page itself counts the clicks. */
export class Clicks {
  /** Clicks by task, in the order in which they were done. */
  readonly taken = new Map<string, number>()
  private choices = 0

  private constructor(private readonly page: Page) {}

  /** Of a page that is signed in, and stays the same document. */
  static async of(page: Page): Promise<Clicks> {
    await page.evaluate(counting)
    return new Clicks(page)
  }

  /** Typing is no click. In a form Tab leads on, and Enter sends from the button that it leads to. */
  async task(name: string, work: () => Promise<void>): Promise<void> {
    await this.page.evaluate("location.hash = '#now'")
    await this.page.getByRole('heading', { level: 1, name: 'Now' }).waitFor()
    await this.page.evaluate('window.clicks = 0')
    this.choices = 0
    await work()
    // A choice from a list is two: one opens it.
    this.taken.set(name, Number(await this.page.evaluate('window.clicks')) + 2 * this.choices)
  }

  view(title: string): Promise<void> {
    return this.page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: title, exact: true }).click()
  }

  /** A choice with the pointer. */
  async pick(list: Locator, value: string): Promise<void> {
    await list.selectOption(value)
    this.choices++
  }

  /** Goes on by Tab to `field`, and types `text` over what it says; in a list, the first letters choose. */
  async type(field: Locator, text: string): Promise<void> {
    await this.to(field)
    await this.page.keyboard.press('Control+a')
    await this.page.keyboard.type(text)
  }

  /** Goes on by Tab to `button`. */
  async enter(button: Locator): Promise<void> {
    await this.to(button)
    await this.page.keyboard.press('Enter')
  }

  private async to(place: Locator): Promise<void> {
    await place.waitFor()
    for (let stops = 0; stops < stopsMax; stops++) {
      if (await place.evaluate((element) => element.matches(':focus'))) return
      await this.page.keyboard.press('Tab')
    }
    throw new Error(`Tab leads to ${stopsMax} places, and not to ${place}`)
  }
}
