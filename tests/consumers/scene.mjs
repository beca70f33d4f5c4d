// One consumer with its tap and its database, alone or behind hookonce.
import { appendFileSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { folderFor, freePort, startConsumer, startHookonce } from './machine.mjs'
import { deliver } from './senders.mjs'
import { tap } from './tap.mjs'

let scenes = 0

export class Scene {
  static async open(consumer, redis) {
    const scene = Object.assign(new Scene(), { consumer, redis, namespace: `scene${++scenes}` })
    scene.folder = join(folderFor(scene.namespace), 'database')
    folderFor(join(scene.namespace, 'database'))
    appendFileSync(scene.database, '')
    scene.port = await freePort()
    scene.app = await startConsumer(consumer, scene.port, scene.database)
    scene.tap = await tap(scene.port)
    return scene
  }

  get database() {
    return join(this.folder, 'rows')
  }

  /**
   * Puts hookonce in front, with this beside what the consumer's provider needs. Where connections matter it goes straight to
   * the consumer, past the tap.
   */
  async putHookonce({ more = '', sections = '', clock, mode = 'sync', pastTap = false } = {}) {
    const name = `${this.namespace}-${mode}`
    const upstream = pastTap ? this.port : this.tap.port
    const all = `${sections}${this.consumer.provider}${more}`
    this.hookonce = await startHookonce(name, { redis: this.redis, upstream, namespace: name, clock, sections: all })
  }

  async takeHookonceAway() {
    await this.hookonce?.stop()
    this.hookonce = undefined
  }

  make(id, at = Date.now(), more = {}) {
    return this.consumer.sender({ id, at, ...more })
  }

  /** Delivers to the consumer, or to hookonce where that is in front. */
  deliver(delivery) {
    return deliver(this.hookonce?.port ?? this.tap.port, this.consumer.path, delivery)
  }

  /** How often an event took effect. */
  effects(id) {
    return readFileSync(this.database, 'utf8').split('\n').filter((row) => row.startsWith(`${id} `)).length
  }

  /** Runs this while the consumer's database cannot be written to. */
  async withoutDatabase(run) {
    renameSync(this.folder, `${this.folder}.away`)
    try {
      return await run()
    } finally {
      renameSync(`${this.folder}.away`, this.folder)
    }
  }

  async stopApp() {
    await this.app.stop()
    await this.tap.close()
  }

  async startApp() {
    this.app = await startConsumer(this.consumer, this.port, this.database)
    await this.tap.reopen()
  }

  async close() {
    await this.takeHookonceAway()
    await this.stopApp()
  }
}
