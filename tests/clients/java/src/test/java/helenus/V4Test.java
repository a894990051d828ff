package helenus;

/** The application at protocol version 4. */
class V4Test extends ApplicationTest {
  V4Test() {
    super("V4");
  }
}
